//! PodCertificateRequest (v1 of certificates.k8s.io).

use serde_json::Value;

use crate::cells;
use crate::definition::Definition;
use crate::hooks::Hooks;
use crate::table::{NAME, TableColumn, column, field, wide, words};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("certificates.k8s.io", "v1", "PodCertificateRequest", "podcertificaterequests")
        .status()
        .conditional_update()
        .hooks(PodCertificateRequest)
}

#[derive(Debug)]
struct PodCertificateRequest;

impl Hooks for PodCertificateRequest {
    fn table(&self) -> &'static [TableColumn] {
        TABLE
    }

    fn selectable_field_names(&self) -> &'static [&'static str] {
        &["spec.signerName", "spec.podName", "spec.nodeName"]
    }
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("PodName", "string", field("certificates.v1.PodCertificateRequestSpec", "podName"), |o, _| {
        cells::text(o, "spec.podName")
    }),
    column(
        "ServiceAccountName",
        "string",
        field("certificates.v1.PodCertificateRequestSpec", "serviceAccountName"),
        |o, _| cells::text(o, "spec.serviceAccountName"),
    ),
    column("NodeName", "string", field("certificates.v1.PodCertificateRequestSpec", "nodeName"), |o, _| {
        cells::text(o, "spec.nodeName")
    }),
    column("SignerName", "string", field("certificates.v1.PodCertificateRequestSpec", "signerName"), |o, _| {
        cells::text(o, "spec.signerName")
    }),
    column("State", "string", words("Is the request Pending, Issued, Denied, or Failed?"), |o, _| state(o).into()),
    wide(
        "UnverifiedUserAnnotations",
        "string",
        field("certificates.v1.PodCertificateRequestSpec", "unverifiedUserAnnotations"),
        |o, _| cells::labels(o, "spec.unverifiedUserAnnotations"),
    ),
];

fn state(request: &Value) -> &str {
    let last = cells::list(request, "status.conditions").iter().rev().filter_map(|c| c["type"].as_str());
    last.into_iter().find(|ty| matches!(*ty, "Issued" | "Denied" | "Failed")).unwrap_or("Pending")
}
