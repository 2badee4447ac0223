//! Whether a node has what a pod asks of it: its node selector and its required node affinity. What
//! a term means is a rule that all components share.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec};
use trireme_machinery::placement::{Expression, NodeTerm};

/// The node has the labels, and one of the terms is true of it.
pub(crate) fn fits(spec: &PodSpec, node: &Node) -> bool {
    let label = |key: &str| node.metadata.labels.as_ref().and_then(|l| l.get(key)).map(String::as_str);
    let selected = spec.node_selector.iter().flatten().all(|(key, value)| label(key) == Some(value));
    let affinity = spec.affinity.as_ref().and_then(|a| a.node_affinity.as_ref());
    let required = affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    selected && required.is_none_or(|selector| matches(selector, node))
}

fn matches(selector: &NodeSelector, node: &Node) -> bool {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let none = BTreeMap::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&none);
    selector.node_selector_terms.iter().any(|one| term(one).matches(name, labels))
}

fn term(term: &NodeSelectorTerm) -> NodeTerm {
    fn expressions(all: Option<&Vec<NodeSelectorRequirement>>) -> impl Iterator<Item = Expression<'_>> {
        all.into_iter().flatten().map(|one| Expression {
            key: &one.key,
            operator: &one.operator,
            values: one.values.as_deref().unwrap_or_default(),
        })
    }
    NodeTerm::new(expressions(term.match_expressions.as_ref()), expressions(term.match_fields.as_ref()))
}

#[cfg(test)]
mod tests {

    use serde_json::{Value, json};

    fn fits(spec: Value) -> bool {
        let mut whole = json!({"containers": []});
        for (name, value) in spec.as_object().into_iter().flatten() {
            whole[name] = value.clone();
        }
        let node = json!({"metadata": {"name": "n1", "labels": {"disk": "ssd", "cpus": "8"}}});
        super::fits(&serde_json::from_value(whole).unwrap(), &serde_json::from_value(node).unwrap())
    }

    fn term(terms: Value) -> Value {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
    }

    #[test]
    fn selectors_and_affinity() {
        assert!(fits(json!({})));
        assert!(fits(json!({"nodeSelector": {"disk": "ssd"}})));
        assert!(!fits(json!({"nodeSelector": {"disk": "hdd"}})));
        assert!(fits(term(json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]))));
        assert!(fits(term(json!([{"matchExpressions": [{"key": "cpus", "operator": "Gt", "values": ["4"]}]}]))));
        assert!(!fits(term(json!([{"matchExpressions": [{"key": "disk", "operator": "NotIn", "values": ["ssd"]}]}]))));
        assert!(!fits(term(json!([{}]))));
        // The scheduler cannot read it either.
        assert!(!fits(term(json!([{"matchExpressions": [{"key": "gpu", "operator": "NotIn"}]}]))));
        assert!(fits(term(json!([{}, {"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}]))));
    }
}
