//! PriorityClass (v1 of scheduling.k8s.io).

use crate::cells;
use crate::definition::Definition;
use crate::hooks::Hooks;
use crate::table::{AGE, NAME, TableColumn, column, field};
use serde_json::Value;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses")
        .cluster()
        .short(&["pc"])
        .generation()
        .hooks(PriorityClass)
}

#[derive(Debug)]
struct PriorityClass;

impl Hooks for PriorityClass {
    fn table(&self) -> &'static [TableColumn] {
        TABLE
    }

    fn bumps_generation(&self, _: &Value, _: &Value) -> bool {
        false
    }
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Value", "integer", field("scheduling.v1.PriorityClass", "value"), |o, _| cells::number(o, "value")),
    column("Global-Default", "boolean", field("scheduling.v1.PriorityClass", "globalDefault"), |o, _| {
        cells::truth(o, "globalDefault", false)
    }),
    AGE,
    column("PreemptionPolicy", "string", field("scheduling.v1.PriorityClass", "preemptionPolicy"), |o, _| {
        cells::text(o, "preemptionPolicy")
    }),
];
