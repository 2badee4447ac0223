//! ResourceClaim (v1 of resource.k8s.io).

use serde_json::Value;
use trireme_machinery::meta;

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, words};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims").status().table(TABLE)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("State", "string", words("A summary of the current state (allocated, pending, reserved, etc.)."), |o, _| {
        state(o).into()
    }),
    AGE,
];

fn state(claim: &Value) -> String {
    let mut states = Vec::new();
    if meta::is_deleting(claim) {
        states.push("deleted");
    }
    if cells::at(claim, "status.allocation").is_null() {
        if !meta::is_deleting(claim) {
            states.push("pending");
        }
    } else {
        states.push("allocated");
        if !cells::list(claim, "status.reservedFor").is_empty() {
            states.push("reserved");
        }
    }
    states.join(",")
}
