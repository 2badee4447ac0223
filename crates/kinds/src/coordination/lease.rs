//! Lease (v1 of coordination.k8s.io).

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, field};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("coordination.k8s.io", "v1", "Lease", "leases").conditional_update().create_on_update().table(TABLE)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Holder", "string", field("coordination.v1.LeaseSpec", "holderIdentity"), |o, _| {
        cells::text(o, "spec.holderIdentity")
    }),
    AGE,
];
