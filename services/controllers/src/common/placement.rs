//! Whether a node has what a pod asks of it: its node selector and its required node affinity.

use k8s_openapi::api::core::v1::{Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec};

/// The node has the labels, and one of the terms is true of it.
pub(crate) fn fits(spec: &PodSpec, node: &Node) -> bool {
    let label = |key: &str| node.metadata.labels.as_ref().and_then(|l| l.get(key)).map(String::as_str);
    let selected = spec.node_selector.iter().flatten().all(|(key, value)| label(key) == Some(value));
    let affinity = spec.affinity.as_ref().and_then(|a| a.node_affinity.as_ref());
    let required = affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    selected && required.is_none_or(|selector| matches(selector, node))
}

fn matches(selector: &NodeSelector, node: &Node) -> bool {
    selector.node_selector_terms.iter().any(|term| term_matches(term, node))
}

/// A term without anything in it matches no node.
fn term_matches(term: &NodeSelectorTerm, node: &Node) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let label = |key: &str| node.metadata.labels.as_ref().and_then(|l| l.get(key)).map(String::as_str);
    let field = |key: &str| if key == "metadata.name" { node.metadata.name.as_deref() } else { None };
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(|r| holds(r, label(&r.key)))
        && fields.iter().all(|r| holds(r, field(&r.key)))
}

fn holds(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let one_of = |value: &str| values.iter().any(|v| v == value);
    let number = |text: &str| text.parse::<i64>().ok();
    let compared = |than: fn(&i64, &i64) -> bool| {
        let (value, bound) = (value.and_then(number), values.first().and_then(|b| number(b)));
        value.zip(bound).is_some_and(|(value, bound)| than(&value, &bound))
    };
    match requirement.operator.as_str() {
        "In" => value.is_some_and(one_of),
        "NotIn" => !value.is_some_and(one_of),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared(i64::gt),
        "Lt" => compared(i64::lt),
        _ => false,
    }
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
        assert!(fits(term(json!([{}, {"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}]))));
    }
}
