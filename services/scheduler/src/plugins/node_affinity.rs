//! NodeAffinity: a pod runs on nodes with the labels that it asks for, and rather on those that it prefers.

use crate::framework::{Ask, Check, Filter, Prepared, Rate, Rejection, Score, normalize_to_max};
use crate::hints::ClusterEvent;
use crate::model::{NodeInfo, PodInfo, affinity};

/// A pod runs on nodes with the labels that it asks for, and rather on those that it prefers.
pub(crate) struct NodeAffinity;

struct Required<'a>(&'a affinity::NodeAffinity);

struct Preferred<'a>(&'a affinity::NodeAffinity);

impl Filter for NodeAffinity {
    fn name(&self) -> &'static str {
        "NodeAffinity"
    }

    fn prepare<'a>(&self, ask: Ask<'a>) -> Prepared<'a> {
        let affinity = &ask.pod.node_affinity;
        if affinity.is_empty() {
            return Prepared::Skip;
        }
        match affinity.named_nodes() {
            None => Prepared::Check(Box::new(Required(affinity))),
            Some(names) if names.is_empty() => Prepared::Refuse("pod affinity terms conflict".to_owned()),
            Some(names) => Prepared::Only(names, Box::new(Required(affinity))),
        }
    }

    fn helps(&self, pod: &PodInfo, event: &ClusterEvent) -> bool {
        match event {
            ClusterEvent::Node { old, new } => {
                pod.node_affinity.allows(new) && !old.as_ref().is_some_and(|old| pod.node_affinity.allows(old))
            }
            _ => false,
        }
    }
}

impl Check for Required<'_> {
    fn check(&self, node: &NodeInfo) -> Result<(), Rejection> {
        if self.0.allows(node) {
            return Ok(());
        }
        Err(Rejection::lasting("node(s) didn't match Pod's node affinity/selector"))
    }
}

impl Score for NodeAffinity {
    fn name(&self) -> &'static str {
        "NodeAffinity"
    }

    fn prepare<'a>(&self, ask: Ask<'a>, _: &[&'a NodeInfo]) -> Option<Box<dyn Rate + 'a>> {
        let affinity = &ask.pod.node_affinity;
        (!affinity.preferred.is_empty()).then(|| Box::new(Preferred(affinity)) as Box<dyn Rate>)
    }
}

impl Rate for Preferred<'_> {
    fn rate(&self, node: &NodeInfo) -> i64 {
        self.0
            .preferred
            .iter()
            .filter(|(_, term)| term.matches(node.name(), node.labels()))
            .map(|(weight, _)| weight)
            .sum()
    }

    fn normalize(&self, _: &[&NodeInfo], scores: &mut [i64]) {
        normalize_to_max(scores, false);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use trireme_machinery::labels::Selector;

    use super::*;
    use crate::plugins::testing::{cluster, judge, rate};
    use crate::testing::{PodBuilder, node, pod};

    fn requiring(terms: Value) -> PodBuilder {
        let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        pod("p").set(&["spec", "affinity", "nodeAffinity"], required)
    }

    fn fits(pod: PodBuilder) -> Vec<bool> {
        let snapshot = cluster(vec![node("a").label("disk", "ssd").label("n", "5"), node("b")], vec![]);
        judge(&NodeAffinity, &pod.info(), &snapshot).iter().map(Result::is_ok).collect()
    }

    #[test]
    fn labels_and_terms_decide() {
        assert_eq!(fits(pod("p")), [true, true]);
        assert_eq!(fits(pod("p").set(&["spec", "nodeSelector"], json!({"disk": "ssd"}))), [true, false]);
        let expression = |key: &str, operator: &str, values: Value| json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]);
        assert_eq!(fits(requiring(expression("disk", "In", json!(["hdd", "ssd"])))), [true, false]);
        assert_eq!(fits(requiring(expression("disk", "NotIn", json!(["ssd"])))), [false, true]);
        assert_eq!(fits(requiring(expression("n", "Gt", json!(["4"])))), [true, false]);
        assert_eq!(fits(requiring(json!([{}]))), [false, false]);
        assert_eq!(fits(requiring(json!([]))), [false, false]);
        let by_name = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}]);
        assert_eq!(fits(requiring(by_name)), [false, true]);
    }

    #[test]
    fn preferences_add_up() {
        let term = |weight: i64, value: &str| {
            json!({"weight": weight, "preference": {"matchExpressions": [
            {"key": "zone", "operator": "In", "values": [value]}]}})
        };
        let preferring = pod("p").set(
            &["spec", "affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution"],
            json!([term(1, "x"), term(4, "y")]),
        );
        let snapshot = cluster(vec![node("a").label("zone", "x"), node("b").label("zone", "y"), node("c")], vec![]);
        let scores = rate(&NodeAffinity, &preferring.info(), &snapshot, &Selector::everything());
        assert_eq!(scores, Some(vec![25, 100, 0]));
    }
}
