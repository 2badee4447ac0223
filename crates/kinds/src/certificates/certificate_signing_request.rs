//! CertificateSigningRequest (v1 of certificates.k8s.io).

use crate::check::Node;
use crate::core::pod_spec;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::cmp::Ordering;
use trireme_machinery::field::{self, ErrorList};

use crate::cells;
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::rules::NameRule;
use crate::table::{AGE, NAME, TableColumn, column, field, words};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests")
        .cluster()
        .short(&["csr"])
        .serves("approval", "CertificateSigningRequest", &["get", "patch", "update"])
        .status()
        .names(NameRule::PathSegment)
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

    fn validate(&self, obj: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        validate(obj, &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value, ctx: &Context<'_>) -> ErrorList {
        let mut errors = self.validate(new, ctx);
        keeps_verdict(new, old, &mut errors);
        errors
    }

    fn validate_update_status(&self, new: &Value, _: &Value, ctx: &Context<'_>) -> ErrorList {
        self.validate(new, ctx)
    }
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    AGE,
    column("SignerName", "string", words(SIGNER), |o, _| cells::text_or(o, "spec.signerName", "<none>")),
    column("Requestor", "string", words("Base64-encoded PKCS#10 CSR data"), |o, _| cells::text(o, "spec.username")),
    column(
        "RequestedDuration",
        "string",
        field("certificates.v1.CertificateSigningRequestSpec", "expirationSeconds"),
        |o, _| cells::at(o, "spec.expirationSeconds").as_i64().map_or_else(|| "<none>".to_owned(), cells::human).into(),
    ),
    column("Condition", "string", words("Conditions applied to the request, such as approval or denial."), |o, _| {
        condition(o).into()
    }),
];

/// What the columns say is what the fields meant in v1beta1.
const SIGNER: &str = "Requested signer for the request. It is a qualified name in the form: `scope-hostname.io/name`. If \
                      empty, it will be defaulted:\n 1. If it's a kubelet client certificate, it is assigned\n    \
                      \"kubernetes.io/kube-apiserver-client-kubelet\".\n 2. If it's a kubelet serving certificate, it is \
                      assigned\n    \"kubernetes.io/kubelet-serving\".\n 3. Otherwise, it is assigned \
                      \"kubernetes.io/legacy-unknown\".\nDistribution of trust for signers happens out of band. You can \
                      select on this field using `spec.signerName`.";

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

const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];
const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
const MIN_SECONDS: i64 = 600;

fn validate(obj: &Value, errors: &mut ErrorList) {
    let spec = Node::of(obj, "spec");
    if !is_request(spec.str("request")) {
        spec.invalid("request", "PEM block type must be CERTIFICATE REQUEST", errors);
    }
    spec.required("usages", errors);
    for usage in spec.list("usages").iter().filter(|u| !USAGES.contains(&u.text())) {
        errors.push(field::not_supported(&usage.path, usage.text(), USAGES));
    }
    let mut seen = Vec::new();
    for usage in spec.list("usages") {
        if seen.contains(&usage.text()) {
            errors.push(field::duplicate(&usage.path, usage.text()));
        }
        seen.push(usage.text());
    }
    if spec.str("signerName") == LEGACY_SIGNER {
        spec.invalid("signerName", "the legacy signerName is not allowed via this API version", errors);
    } else {
        pod_spec::signer_name(&spec.get("signerName"), errors);
    }
    if spec.opt_int("expirationSeconds").is_some_and(|n| n < MIN_SECONDS) {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        spec.invalid("expirationSeconds", why, errors);
    }
    conditions(&Node::of(obj, "status"), errors);
}

/// Whether a request, in base64, is PEM of the right kind.
fn is_request(text: &str) -> bool {
    STANDARD.decode(text).is_ok_and(|bytes| {
        let text = String::from_utf8_lossy(&bytes);
        let body = text.split_once("-----BEGIN ").map_or("", |(_, body)| body);
        body.starts_with("CERTIFICATE REQUEST-----") && body.contains("-----END CERTIFICATE REQUEST-----")
    })
}

fn conditions(status: &Node<'_>, errors: &mut ErrorList) {
    let mut seen: Vec<&str> = Vec::new();
    for condition in status.list("conditions") {
        condition.required("type", errors);
        let ty = condition.str("type");
        let allowed: &[&str] = match ty {
            "Approved" | "Denied" | "Failed" => &["True"],
            _ => &["False", "True", "Unknown"],
        };
        condition.required_one_of("status", allowed, errors);
        let opposite = match ty {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if !opposite.is_empty() && seen.contains(&opposite) {
            let why = "Approved and Denied conditions are mutually exclusive";
            errors.push(field::invalid(&status.path.child("conditions"), ty, why));
        }
        if seen.contains(&ty) {
            errors.push(field::duplicate(&condition.path.child("type"), ty));
        }
        seen.push(ty);
    }
}

/// An update of the request itself neither gives nor takes a verdict, nor a certificate.
fn keeps_verdict(new: &Value, old: &Value, errors: &mut ErrorList) {
    let (is, was) = (Node::of(new, "status"), Node::of(old, "status"));
    let at = is.path.child("conditions");
    for ty in ["Approved", "Denied"] {
        let count = |status: &Node<'_>| status.list("conditions").iter().filter(|c| c.str("type") == ty).count();
        let why = match count(&is).cmp(&count(&was)) {
            Ordering::Less => format!("updates may not remove a condition of type {ty:?}"),
            Ordering::Greater => format!("updates may not add a condition of type {ty:?}"),
            Ordering::Equal => continue,
        };
        errors.push(field::forbidden(&at, why));
    }
    if is.get("certificate").value != was.get("certificate").value {
        is.forbidden("certificate", "updates may not set certificate content", errors);
    }
}
