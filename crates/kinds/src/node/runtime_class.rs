//! RuntimeClass (v1 of node.k8s.io).

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, words};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses")
        .cluster()
        .conditional_update()
        .create_on_update()
        .table(TABLE)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[NAME, column("Handler", "string", words(""), |o, _| cells::text(o, "handler")), AGE];
