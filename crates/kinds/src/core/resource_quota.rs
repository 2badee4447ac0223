//! ResourceQuota (v1).

use crate::check::Node;
use crate::core::pod_spec;
use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, words};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("", "v1", "ResourceQuota", "resourcequotas")
        .short(&["quota"])
        .status()
        .table(TABLE)
        .check(validate)
        .check_update(validate_update)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column(
        "Request",
        "string",
        words("Request represents a minimum amount of cpu/memory that a container may consume."),
        |o, _| amounts(o, false).into(),
    ),
    column(
        "Limit",
        "string",
        words(
            "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.",
        ),
        |o, _| amounts(o, true).into(),
    ),
    AGE,
];

/// Used and hard amounts of the requests, or of the limits.
fn amounts(quota: &Value, limits: bool) -> String {
    let hard = cells::at(quota, "status.hard").as_object();
    let used = cells::at(quota, "status.used");
    let amounts: Vec<String> = hard
        .into_iter()
        .flatten()
        .filter(|(resource, _)| resource.starts_with("limits.") == limits)
        .map(|(resource, hard)| format!("{resource}: {}/{}", cells::quantity(&used[resource]), cells::quantity(hard)))
        .collect();
    amounts.join(", ")
}

const TERMINATING: &str = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];

fn validate(quota: &Value, errors: &mut ErrorList) {
    let spec = Node::of(quota, "spec");
    for (resource, amount) in spec.entries("hard") {
        pod_spec::quota_resource_name(resource, &amount.path, errors);
        pod_spec::quantity_value(resource, &amount, errors);
    }
    let scopes = spec.list("scopes");
    if scopes.iter().any(|s| !SCOPES.contains(&s.text())) {
        spec.invalid("scopes", "unsupported scope", errors);
    }
    for (a, b) in [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")] {
        if [a, b].iter().all(|scope| scopes.iter().any(|s| s.text() == *scope)) {
            spec.invalid("scopes", "conflicting scopes", errors);
        }
    }
    let at = spec.path.child("scopeSelector").child("matchExpressions");
    for expression in spec.get("scopeSelector").list("matchExpressions") {
        let (scope, operator) = (expression.str("scopeName"), expression.str("operator"));
        let values = expression.list("values");
        if !SCOPES.contains(&scope) {
            errors.push(field::invalid(&at.child("scopeName"), scope, "unsupported scope"));
        }
        if SCOPES.contains(&scope)
            && !matches!(scope, "PriorityClass" | "VolumeAttributesClass")
            && operator != "Exists"
        {
            errors.push(field::invalid(&at.child("operator"), operator, TERMINATING));
        }
        match operator {
            "In" | "NotIn" if values.is_empty() => {
                let why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                errors.push(field::required(&at.child("values"), why));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                errors.push(field::invalid(&at.child("values"), expression.get("values").value, why));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.push(field::invalid(&at.child("operator"), other, "not a valid selector operator")),
        }
    }
}

fn validate_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    validate(new, errors);
    let (is, was) = (Node::of(new, "spec"), Node::of(old, "spec"));
    let scopes = |spec: &Node<'_>| {
        let mut scopes: Vec<String> = spec.list("scopes").iter().map(|s| s.text().to_owned()).collect();
        scopes.sort();
        scopes
    };
    if scopes(&is) != scopes(&was) {
        is.invalid("scopes", "field is immutable", errors);
    }
}
