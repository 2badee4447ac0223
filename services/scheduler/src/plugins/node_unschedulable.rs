//! NodeUnschedulable: a cordoned node takes only pods that tolerate it.

use k8s_openapi::api::core::v1::{Taint, Toleration};

use crate::framework::{Ask, Check, Filter, Prepared, Rejection};
use crate::hints::ClusterEvent;
use crate::model::{NodeInfo, PodInfo, taints};

/// A cordoned node takes only pods that tolerate it.
pub(crate) struct NodeUnschedulable;

struct Cordoned;

fn tolerates_cordon(tolerations: &[Toleration]) -> bool {
    let taint = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    taints::tolerated(&taint, tolerations)
}

impl Filter for NodeUnschedulable {
    fn name(&self) -> &'static str {
        "NodeUnschedulable"
    }

    fn prepare<'a>(&self, ask: Ask<'a>) -> Prepared<'a> {
        if tolerates_cordon(ask.pod.tolerations()) { Prepared::Skip } else { Prepared::Check(Box::new(Cordoned)) }
    }

    fn helps(&self, _: &PodInfo, event: &ClusterEvent) -> bool {
        match event {
            ClusterEvent::Node { old, new } => {
                !new.is_unschedulable() && old.as_ref().is_none_or(|old| old.is_unschedulable())
            }
            ClusterEvent::PodItself { old, new } => old.tolerations() != new.tolerations(),
            _ => false,
        }
    }
}

impl Check for Cordoned {
    fn check(&self, node: &NodeInfo) -> Result<(), Rejection> {
        if node.is_unschedulable() { Err(Rejection::lasting("node(s) were unschedulable")) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugins::testing::{cluster, judge};
    use crate::testing::{node, pod};

    #[test]
    fn cordoned_nodes_are_for_the_tolerant() {
        let snapshot = cluster(vec![node("a").set(&["spec", "unschedulable"], true.into())], vec![]);
        let judged = judge(&NodeUnschedulable, &pod("p").info(), &snapshot);
        assert_eq!(judged, [Err(Rejection::lasting("node(s) were unschedulable"))]);
        let tolerant = pod("p").set(&["spec", "tolerations"], json!([{"operator": "Exists"}]));
        assert_eq!(judge(&NodeUnschedulable, &tolerant.info(), &snapshot), [Ok(())]);
    }
}
