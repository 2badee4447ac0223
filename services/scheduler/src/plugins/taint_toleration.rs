//! TaintToleration: taints that a pod does not tolerate keep it off a node, or count against the node.

use k8s_openapi::api::core::v1::Toleration;

use crate::framework::{Ask, Check, Filter, Prepared, Rate, Rejection, Score, normalize_to_max};
use crate::hints::ClusterEvent;
use crate::model::{NodeInfo, PodInfo, taints};

/// Taints that a pod does not tolerate keep it off a node, or count against the node.
pub(crate) struct TaintToleration;

struct Hard<'a>(&'a [Toleration]);

struct Soft<'a>(Vec<&'a Toleration>);

impl Filter for TaintToleration {
    fn name(&self) -> &'static str {
        "TaintToleration"
    }

    fn prepare<'a>(&self, ask: Ask<'a>) -> Prepared<'a> {
        Prepared::Check(Box::new(Hard(ask.pod.tolerations())))
    }

    fn helps(&self, pod: &PodInfo, event: &ClusterEvent) -> bool {
        let kept_off = |node: &NodeInfo| taints::first_untolerated(node.taints(), pod.tolerations()).is_some();
        match event {
            ClusterEvent::Node { old, new } => !kept_off(new) && old.as_deref().is_none_or(kept_off),
            ClusterEvent::PodItself { old, new } => old.tolerations() != new.tolerations(),
            _ => false,
        }
    }
}

impl Check for Hard<'_> {
    fn check(&self, node: &NodeInfo) -> Result<(), Rejection> {
        match taints::first_untolerated(node.taints(), self.0) {
            None => Ok(()),
            Some(_) => Err(Rejection::lasting("node(s) had untolerated taint(s)")),
        }
    }
}

impl Score for TaintToleration {
    fn name(&self) -> &'static str {
        "TaintToleration"
    }

    fn prepare<'a>(&self, ask: Ask<'a>, _: &[&'a NodeInfo]) -> Option<Box<dyn Rate + 'a>> {
        let about_soft = |toleration: &&Toleration| {
            toleration.effect.as_deref().is_none_or(|effect| effect.is_empty() || effect == taints::SOFT)
        };
        Some(Box::new(Soft(ask.pod.tolerations().iter().filter(about_soft).collect())))
    }
}

impl Rate for Soft<'_> {
    fn rate(&self, node: &NodeInfo) -> i64 {
        let soft = node.taints().iter().filter(|taint| taint.effect == taints::SOFT);
        soft.filter(|taint| !taints::tolerated(taint, self.0.iter().copied())).count() as i64
    }

    fn normalize(&self, _: &[&NodeInfo], scores: &mut [i64]) {
        normalize_to_max(scores, true);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trireme_machinery::labels::Selector;

    use super::*;
    use crate::plugins::testing::{cluster, judge, rate};
    use crate::testing::{node, pod};

    #[test]
    fn hard_taints_keep_off_and_soft_ones_count() {
        let snapshot = cluster(
            vec![node("a").taint("k", "NoSchedule"), node("b").taint("k", "PreferNoSchedule"), node("c")],
            vec![],
        );
        let plain = pod("p").info();
        let judged = judge(&TaintToleration, &plain, &snapshot);
        assert_eq!(judged, [Err(Rejection::lasting("node(s) had untolerated taint(s)")), Ok(()), Ok(())]);
        assert_eq!(rate(&TaintToleration, &plain, &snapshot, &Selector::everything()), Some(vec![100, 0, 100]));
        let tolerant = pod("p").set(&["spec", "tolerations"], json!([{"key": "k", "operator": "Exists"}])).info();
        assert!(judge(&TaintToleration, &tolerant, &snapshot).iter().all(Result::is_ok));
        assert_eq!(rate(&TaintToleration, &tolerant, &snapshot, &Selector::everything()), Some(vec![100, 100, 100]));
    }
}
