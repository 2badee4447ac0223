//! PodDisruptionBudget (v1 of policy).

use crate::check::{Node, in_order, selector_in_order};
use crate::workload;
use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::go;

use crate::cells;
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::rules::NameRule;
use crate::table::{AGE, NAME, TableColumn, column, words};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
        .free_finalizers()
        .names(NameRule::PathSegment)
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
        let json = |key: &str| go::json(spec.get(key).value);
        let selector = spec.given("selector").map_or_else(|| "null".to_owned(), |s| selector_in_order(s.value));
        let shown = in_order([
            ("MinAvailable", json("minAvailable")),
            ("Selector", selector),
            ("MaxUnavailable", json("maxUnavailable")),
            ("UnhealthyPodEvictionPolicy", json("unhealthyPodEvictionPolicy")),
        ]);
        let why = "minAvailable and maxUnavailable cannot be both set";
        errors.push(field::invalid(&spec.path, spec.value, why).showing(shown));
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
