//! The taints that a node's conditions mean. Pure.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::common::conditions;
use crate::common::taint::{NO_EXECUTE, NO_SCHEDULE};

pub(super) const NOT_READY: &str = "node.kubernetes.io/not-ready";
pub(super) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// (condition, its status, taint)
const BY_CONDITION: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// What may be done about pods that run on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Eviction {
    /// The taint that the Ready condition means may be set.
    Allowed,
    /// A taint that is there may change, none may be added.
    Held,
    /// None may be there: all nodes look dead, so it is rather this worker that cannot see.
    Suspended,
}

fn ready(node: &Node) -> &str {
    conditions::of_node(node, "Ready").map_or("", |c| c.status.as_str())
}

/// The taint against running pods that the node's Ready condition means.
pub(super) fn evicting(node: &Node) -> Option<&'static str> {
    match ready(node) {
        "False" => Some(NOT_READY),
        "Unknown" => Some(UNREACHABLE),
        _ => None,
    }
}

/// The node has the taint against running pods already, in either form.
pub(super) fn evicts(node: &Node) -> bool {
    of(node).iter().any(|t| t.effect == NO_EXECUTE && matches!(t.key.as_str(), NOT_READY | UNREACHABLE))
}

fn of(node: &Node) -> Vec<Taint> {
    node.spec.as_ref().and_then(|s| s.taints.clone()).unwrap_or_default()
}

fn is_ours(taint: &Taint) -> bool {
    let key = taint.key.as_str();
    match taint.effect.as_str() {
        NO_SCHEDULE => key == UNSCHEDULABLE || BY_CONDITION.iter().any(|(_, _, t)| *t == key),
        NO_EXECUTE => matches!(key, NOT_READY | UNREACHABLE),
        _ => false,
    }
}

/// The taints the node should have; `None`: it has them.
pub(super) fn plan(node: &Node, eviction: Eviction, now: Timestamp) -> Option<Vec<Taint>> {
    let before = of(node);
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    for (kind, status, taint) in BY_CONDITION {
        if conditions::of_node(node, kind).is_some_and(|c| c.status == status) {
            wanted.push((taint, NO_SCHEDULE));
        }
    }
    if node.spec.as_ref().and_then(|s| s.unschedulable).unwrap_or(false) {
        wanted.push((UNSCHEDULABLE, NO_SCHEDULE));
    }
    let may = match eviction {
        Eviction::Allowed => true,
        Eviction::Held => evicts(node),
        Eviction::Suspended => false,
    };
    // A node that did not report yet keeps the taint that keeps pods away from it until it does.
    let unreported = conditions::of_node(node, "Ready").is_none();
    if let Some(taint) = evicting(node).filter(|_| may) {
        wanted.push((taint, NO_EXECUTE));
    }
    let is_wanted = |t: &Taint| wanted.iter().any(|(key, effect)| *key == t.key && *effect == t.effect);
    let mut after: Vec<Taint> =
        before.iter().filter(|t| !is_ours(t) || is_wanted(t) || (unreported && t.key == NOT_READY)).cloned().collect();
    for (key, effect) in wanted {
        if !after.iter().any(|t| t.key == key && t.effect == effect) {
            after.push(Taint {
                key: key.to_owned(),
                effect: effect.to_owned(),
                value: None,
                time_added: Some(Time(now)),
            });
        }
    }
    (after != before).then_some(after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn node(ready: &str, taints: Value) -> Node {
        serde_json::from_value(json!({"metadata": {"name": "n"}, "spec": {"taints": taints},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}}))
        .unwrap()
    }

    fn keys(taints: &[Taint]) -> Vec<String> {
        taints.iter().map(|t| format!("{}:{}", t.key, t.effect)).collect()
    }

    fn run(node: &Node, eviction: Eviction) -> Option<Vec<String>> {
        plan(node, eviction, Timestamp::UNIX_EPOCH).map(|t| keys(&t))
    }

    #[test]
    fn a_node_that_is_not_ready_gets_both_taints() {
        let own = json!([{"key": "situation", "effect": "NoSchedule"}]);
        let down = node("False", own.clone());
        let expected = [
            "situation:NoSchedule",
            "node.kubernetes.io/not-ready:NoSchedule",
            "node.kubernetes.io/not-ready:NoExecute",
        ];
        assert_eq!(run(&down, Eviction::Allowed).unwrap(), expected);
        assert_eq!(run(&down, Eviction::Held).unwrap(), expected[..2]);
        assert_eq!(run(&node("True", own), Eviction::Allowed), None);
    }

    #[test]
    fn unknown_replaces_not_ready_at_once() {
        let tainted = json!([{"key": NOT_READY, "effect": "NoSchedule"}, {"key": NOT_READY, "effect": "NoExecute"}]);
        let expected = ["node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"];
        assert_eq!(run(&node("Unknown", tainted.clone()), Eviction::Held).unwrap(), expected);
        assert_eq!(run(&node("True", tainted), Eviction::Held).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn when_all_nodes_look_dead_nothing_is_evicted() {
        let tainted =
            json!([{"key": UNREACHABLE, "effect": "NoSchedule"}, {"key": UNREACHABLE, "effect": "NoExecute"}]);
        assert_eq!(
            run(&node("Unknown", tainted), Eviction::Suspended).unwrap(),
            ["node.kubernetes.io/unreachable:NoSchedule"]
        );
    }

    #[test]
    fn a_cordoned_node_and_pressure() {
        let node: Node = serde_json::from_value(json!({"metadata": {}, "spec": {"unschedulable": true},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "MemoryPressure", "status": "True"}]}}))
        .unwrap();
        assert_eq!(
            run(&node, Eviction::Allowed).unwrap(),
            ["node.kubernetes.io/memory-pressure:NoSchedule", "node.kubernetes.io/unschedulable:NoSchedule"]
        );
    }

    #[test]
    fn a_node_that_did_not_report_keeps_its_first_taint() {
        let node: Node = serde_json::from_value(json!({"metadata": {},
            "spec": {"taints": [{"key": NOT_READY, "effect": "NoSchedule"}]}}))
        .unwrap();
        assert_eq!(run(&node, Eviction::Allowed), None);
    }
}
