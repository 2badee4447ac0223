//! Secret (v1).

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, field};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("", "v1", "Secret", "secrets").table(TABLE)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Type", "string", field("core.v1.Secret", "type"), |o, _| cells::text(o, "type")),
    column("Data", "string", field("core.v1.Secret", "data"), |o, _| cells::count(o, "data")),
    AGE,
];
