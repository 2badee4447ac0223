//! PodDisruptionBudget (v1 of policy).

use serde_json::Value;

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, words};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
        .short(&["pdb"])
        .generation()
        .status()
        .conditional_update()
        .table(TABLE)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Min Available", "string", words("The minimum number of pods that must be available."), |o, _| {
        or_not(o, "spec.minAvailable")
    }),
    column("Max Unavailable", "string", words("The maximum number of pods that may be unavailable."), |o, _| {
        or_not(o, "spec.maxUnavailable")
    }),
    column(
        "Allowed Disruptions",
        "integer",
        words("Calculated number of pods that may be disrupted at this time."),
        |o, _| cells::number(o, "status.disruptionsAllowed"),
    ),
    AGE,
];

/// A number or a percentage.
fn or_not(budget: &Value, path: &str) -> Value {
    match cells::at(budget, path) {
        Value::Null => "N/A".into(),
        Value::String(text) => text.as_str().into(),
        number => number.to_string().into(),
    }
}
