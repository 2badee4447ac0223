//! ClusterTrustBundle (v1 of certificates.k8s.io).

use crate::cells;
use crate::definition::Definition;
use crate::hooks::Hooks;
use crate::table::{NAME, TableColumn, column, field};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("certificates.k8s.io", "v1", "ClusterTrustBundle", "clustertrustbundles")
        .cluster()
        .conditional_update()
        .hooks(ClusterTrustBundle)
}

#[derive(Debug)]
struct ClusterTrustBundle;

impl Hooks for ClusterTrustBundle {
    fn table(&self) -> &'static [TableColumn] {
        TABLE
    }

    fn selectable_field_names(&self) -> &'static [&'static str] {
        &["spec.signerName"]
    }
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("SignerName", "string", field("certificates.v1.ClusterTrustBundleSpec", "signerName"), |o, _| {
        cells::text_or(o, "spec.signerName", "<none>")
    }),
];
