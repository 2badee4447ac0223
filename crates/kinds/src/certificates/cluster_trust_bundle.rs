//! ClusterTrustBundle (v1 of certificates.k8s.io).

use crate::cells;
use crate::definition::Definition;
use crate::table::{NAME, TableColumn, column, field};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("certificates.k8s.io", "v1", "ClusterTrustBundle", "clustertrustbundles")
        .cluster()
        .conditional_update()
        .table(TABLE)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("SignerName", "string", field("certificates.v1.ClusterTrustBundleSpec", "signerName"), |o, _| {
        cells::text_or(o, "spec.signerName", "<none>")
    }),
];
