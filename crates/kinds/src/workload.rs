//! What is wrong with what the workloads have alike: selectors and templates, replicas, numbers that may be percentages.

use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::labels::Selector;
use trireme_machinery::names;

use crate::check::{NOT_NEGATIVE, Node, selector_in_order};
use crate::core::pod_spec;

/// The selector of a workload must be there and select something; `what` is said of an empty one.
pub(crate) fn selector(spec: &Node<'_>, what: &str, errors: &mut ErrorList) {
    if !spec.has("selector") {
        errors.push(field::required(&spec.path.child("selector"), ""));
        return;
    }
    not_empty(spec, what, errors);
}

/// The selector of a workload, if there is one, must be valid and not be empty.
pub(crate) fn not_empty(spec: &Node<'_>, what: &str, errors: &mut ErrorList) {
    let Some(selector) = spec.given("selector") else { return };
    spec.selector("selector", errors);
    if selector.is_empty("matchLabels") && selector.is_empty("matchExpressions") {
        errors.push(field::invalid(&selector.path, selector.value, format!("empty selector is invalid for {what}")));
    }
}

/// The template must carry the labels that the selector selects; with `empty` also an empty selector must select them.
/// `wrong` is what is said of a selector that cannot be one.
pub(crate) fn template_labels(spec: &Node<'_>, empty: bool, wrong: Option<&str>, errors: &mut ErrorList) {
    let given = spec.get("selector");
    let selector = match Selector::from_label_selector(given.value) {
        Ok(selector) => selector,
        Err(_) => {
            if let Some(wrong) = wrong {
                let shown = selector_in_order(given.value);
                errors.push(field::invalid(&given.path, given.value, wrong).showing(shown));
            }
            return;
        }
    };
    if spec.has("selector") && selector.is_empty() && !empty {
        return;
    }
    let labels = spec.get("template").get("metadata").get("labels");
    let no_labels = serde_json::Map::new();
    if !spec.has("selector") || !selector.matches(labels.value.as_object().unwrap_or(&no_labels)) {
        errors.push(field::invalid(&labels.path, labels.value, "`selector` does not match template `labels`"));
    }
}

/// A template whose Pods always run; `what` names the workload.
pub(crate) fn always_running(spec: &Node<'_>, template: &Node<'_>, what: &str, errors: &mut ErrorList) {
    let _ = spec;
    let pod = template.get("spec");
    if pod.str("restartPolicy") != "Always" {
        errors.push(field::not_supported(&pod.path.child("restartPolicy"), &pod.str("restartPolicy"), ["Always"]));
    }
    pod.forbidden("activeDeadlineSeconds", &format!("activeDeadlineSeconds in {what} is not Supported"), errors);
}

/// The template of a workload.
pub(crate) fn template(spec: &Node<'_>, errors: &mut ErrorList) {
    errors.extend(pod_spec::template(&spec.get("template")));
}

/// A number that is not negative, or a percentage.
pub(crate) fn number_or_percent(node: &Node<'_>, errors: &mut ErrorList) {
    match node.value {
        Value::String(text) => {
            errors.extend(names::is_percent(text).into_iter().map(|m| field::invalid(&node.path, node.value, m)))
        }
        value => {
            if let Some(number) = value.as_i64().filter(|n| *n < 0) {
                errors.push(field::invalid(&node.path, &number, NOT_NEGATIVE));
            }
        }
    }
}

/// A percentage of at most a hundred.
pub(crate) fn at_most_all(node: &Node<'_>, errors: &mut ErrorList) {
    if percent(node).is_some_and(|p| p > 100) {
        errors.push(field::invalid(&node.path, node.value, "must not be greater than 100%"));
    }
}

fn percent(node: &Node<'_>) -> Option<i64> {
    let text = node.value.as_str().filter(|t| names::is_percent(t).is_empty())?;
    text.trim_end_matches('%').parse().ok()
}

/// The number itself, of a percentage too.
pub(crate) fn amount(node: &Node<'_>) -> i64 {
    percent(node).or_else(|| node.value.as_i64()).or_else(|| node.value.as_str()?.parse().ok()).unwrap_or_default()
}

/// The counts of a status: none is negative, none is more than `replicas`, and what is available is ready.
pub(crate) fn status_counts(obj: &Value, counts: &[&str], ready: &str) -> ErrorList {
    let mut errors = ErrorList::new();
    let status = Node::of(obj, "status");
    for key in counts.iter().chain(&["replicas", "observedGeneration", "collisionCount", "terminatingReplicas"]) {
        status.nonnegative(key, &mut errors);
    }
    let above = |key: &str, other: &str| status.int(key) > status.int(other);
    for key in counts.iter().filter(|k| **k != "unavailableReplicas" && above(k, "replicas")) {
        status.invalid(key, "cannot be greater than status.replicas", &mut errors);
    }
    if above("availableReplicas", "readyReplicas") {
        status.invalid("availableReplicas", format!("cannot be greater than {ready}"), &mut errors);
    }
    errors
}

/// How often names collided never gets less.
pub(crate) fn collisions(new: &Value, old: &Value, errors: &mut ErrorList) {
    let count = |obj: &Value| obj["status"]["collisionCount"].as_i64();
    if let Some(had) = count(old)
        && count(new).is_none_or(|has| has < had)
    {
        let at = Node::of(new, "status").path.child("collisionCount");
        errors.push(field::invalid(&at, &count(new).unwrap_or_default(), "cannot be decremented"));
    }
}
