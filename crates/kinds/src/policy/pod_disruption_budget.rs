//! PodDisruptionBudget (v1 of policy).

use crate::check::Node;
use crate::workload;
use serde_json::{Value, json};
use trireme_machinery::field::{self, ErrorList};

use crate::cells;
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::table::{AGE, NAME, TableColumn, column, words};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
        .free_finalizers()
        .short(&["pdb"])
        .generation()
        .status()
        .conditional_update()
        .hooks(PodDisruptionBudget)
}

#[derive(Debug)]
struct PodDisruptionBudget;

impl Hooks for PodDisruptionBudget {
    fn table(&self) -> &'static [TableColumn] {
        TABLE
    }

    fn validate(&self, obj: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        validate(obj, &mut errors);
        errors
    }

    fn validate_update_status(&self, new: &Value, _: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        let status = Node::of(new, "status");
        for key in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            status.nonnegative(key, &mut errors);
        }
        errors
    }
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

fn validate(obj: &Value, errors: &mut ErrorList) {
    let spec = Node::of(obj, "spec");
    if spec.has("minAvailable") && spec.has("maxUnavailable") {
        // Printed as the type within Kubernetes has it.
        let value = json!({
            "MinAvailable": spec.get("minAvailable").value,
            "Selector": spec.get("selector").value,
            "MaxUnavailable": spec.get("maxUnavailable").value,
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy").value,
        });
        errors.push(field::invalid(&spec.path, &value, "minAvailable and maxUnavailable cannot be both set"));
    }
    for key in ["minAvailable", "maxUnavailable"] {
        if let Some(amount) = spec.given(key) {
            workload::number_or_percent(&amount, errors);
            workload::at_most_all(&amount, errors);
        }
    }
    if spec.has("selector") {
        spec.selector("selector", errors);
    }
    spec.one_of("unhealthyPodEvictionPolicy", &["AlwaysAllow", "IfHealthyBudget"], errors);
}
