//! Which objects a quota looks at.

use serde_json::Value;
use trireme_kinds::Kind;

use crate::admission::pod::{items, text};
use crate::admission::resources;

/// Whether every scope of the quota holds for the object.
pub(super) fn matches(kind: &Kind, quota: &Value, object: &Value) -> bool {
    let spec = &quota["spec"];
    let is_pod = kind.group.is_empty() && kind.plural == "pods";
    let plain = items(&spec["scopes"]).filter_map(Value::as_str).map(|scope| (scope, "Exists", Vec::new()));
    let selected = items(&spec["scopeSelector"]["matchExpressions"]).map(|expression| {
        let values = items(&expression["values"]).filter_map(Value::as_str).collect();
        (text(expression, "scopeName"), text(expression, "operator"), values)
    });
    plain.chain(selected).all(|(scope, operator, values)| is_pod && holds(&object["spec"], scope, operator, &values))
}

fn holds(spec: &Value, scope: &str, operator: &str, values: &[&str]) -> bool {
    let terminating = spec["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| seconds >= 0);
    match scope {
        "Terminating" => terminating,
        "NotTerminating" => !terminating,
        "BestEffort" => is_best_effort(spec),
        "NotBestEffort" => !is_best_effort(spec),
        "PriorityClass" => {
            let class = text(spec, "priorityClassName");
            match operator {
                "In" => values.contains(&class),
                "NotIn" => !values.contains(&class),
                "DoesNotExist" => class.is_empty(),
                _ => !class.is_empty(),
            }
        }
        "CrossNamespacePodAffinity" => crosses_namespaces(spec),
        _ => false,
    }
}

fn is_best_effort(spec: &Value) -> bool {
    let asks = |which: &str| {
        let own = resources::read(&spec["resources"][which]);
        let containers = items(&spec["containers"]).chain(items(&spec["initContainers"]));
        let all = containers.map(|container| resources::read(&container["resources"][which])).chain([own]);
        all.flatten().any(|(name, amount)| matches!(name.as_str(), "cpu" | "memory") && !amount.is_zero())
    };
    !asks("requests") && !asks("limits")
}

fn crosses_namespaces(spec: &Value) -> bool {
    let affinity = &spec["affinity"];
    ["podAffinity", "podAntiAffinity"].iter().any(|which| {
        let required = items(&affinity[which]["requiredDuringSchedulingIgnoredDuringExecution"]);
        let preferred = items(&affinity[which]["preferredDuringSchedulingIgnoredDuringExecution"])
            .map(|term| &term["podAffinityTerm"]);
        required
            .chain(preferred)
            .any(|term| items(&term["namespaces"]).next().is_some() || !term["namespaceSelector"].is_null())
    })
}
