//! CSINode (v1 of storage.k8s.io).

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, words};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("storage.k8s.io", "v1", "CSINode", "csinodes").cluster().status().conditional_update().table(TABLE)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column(
        "Drivers",
        "integer",
        words("Drivers indicates the number of CSI drivers registered on the node"),
        |o, _| cells::count(o, "spec.drivers"),
    ),
    AGE,
];
