//! CertificateSigningRequest (v1 of certificates.k8s.io).

use serde_json::{Value, json};

use crate::cells;
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::table::{AGE, NAME, TableColumn, column, field};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests")
        .cluster()
        .short(&["csr"])
        .serves("approval", "CertificateSigningRequest", &["get", "patch", "update"])
        .status()
        .hooks(CertificateSigningRequest)
}

#[derive(Debug)]
struct CertificateSigningRequest;

impl Hooks for CertificateSigningRequest {
    fn table(&self) -> &'static [TableColumn] {
        TABLE
    }

    fn selectable_field_names(&self) -> &'static [&'static str] {
        &["spec.signerName"]
    }

    fn prepare_create(&self, request: &mut Value, ctx: &Context<'_>) {
        let Some(spec) = request["spec"].as_object_mut() else { return };
        for key in ["username", "uid", "groups", "extra"] {
            spec.remove(key);
        }
        let Some(requester) = ctx.requester else { return };
        let mut set = |key: &str, value: Value, empty: bool| {
            if !empty {
                spec.insert(key.to_owned(), value);
            }
        };
        set("username", requester.name.as_str().into(), requester.name.is_empty());
        set("uid", requester.uid.as_str().into(), requester.uid.is_empty());
        set("groups", json!(requester.groups), requester.groups.is_empty());
        set("extra", json!(requester.extra), requester.extra.is_empty());
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, _: &Context<'_>) {
        // What was asked for cannot be changed.
        new["spec"] = old["spec"].clone();
    }
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    AGE,
    column("SignerName", "string", field("certificates.v1.CertificateSigningRequestSpec", "signerName"), |o, _| {
        cells::text_or(o, "spec.signerName", "<none>")
    }),
    column("Requestor", "string", field("certificates.v1.CertificateSigningRequestSpec", "request"), |o, _| {
        cells::text(o, "spec.username")
    }),
    column(
        "RequestedDuration",
        "string",
        field("certificates.v1.CertificateSigningRequestSpec", "expirationSeconds"),
        |o, _| cells::at(o, "spec.expirationSeconds").as_i64().map_or_else(|| "<none>".to_owned(), cells::human).into(),
    ),
    column("Condition", "string", field("certificates.v1.CertificateSigningRequestStatus", "conditions"), |o, _| {
        condition(o).into()
    }),
];

fn condition(request: &Value) -> String {
    let has = |ty: &str| cells::list(request, "status.conditions").iter().any(|c| c["type"] == ty);
    let mut text = if has("Denied") {
        "Denied"
    } else if has("Approved") {
        "Approved"
    } else {
        "Pending"
    }
    .to_owned();
    if has("Failed") {
        text.push_str(",Failed");
    }
    if !cells::str(request, "status.certificate").is_empty() {
        text.push_str(",Issued");
    }
    text
}
