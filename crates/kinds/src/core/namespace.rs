//! Namespace (v1).

use crate::cells;
use crate::definition::Definition;
use crate::rules::NameRule;
use crate::table::{AGE, NAME, TableColumn, column, words};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("", "v1", "Namespace", "namespaces")
        .cluster()
        .short(&["ns"])
        .only(&["create", "delete", "get", "list", "patch", "update", "watch"])
        .serves("finalize", "Namespace", &["update"])
        .status()
        .names(NameRule::Label)
        .table(TABLE)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Status", "string", words("The status of the namespace"), |o, _| cells::text(o, "status.phase")),
    AGE,
];
