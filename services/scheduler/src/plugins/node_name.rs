//! NodeName: a pod that names a node runs there or nowhere.

use crate::framework::{Ask, Check, Filter, Prepared, Rejection};
use crate::hints::ClusterEvent;
use crate::model::{NodeInfo, PodInfo};

/// A pod that names a node runs there or nowhere.
pub(crate) struct NodeName;

struct Named<'a>(&'a str);

impl Filter for NodeName {
    fn name(&self) -> &'static str {
        "NodeName"
    }

    fn prepare<'a>(&self, ask: Ask<'a>) -> Prepared<'a> {
        match ask.pod.node_name() {
            "" => Prepared::Skip,
            name => Prepared::Check(Box::new(Named(name))),
        }
    }

    fn helps(&self, pod: &PodInfo, event: &ClusterEvent) -> bool {
        matches!(event, ClusterEvent::Node { old: None, new } if new.name() == pod.node_name())
    }
}

impl Check for Named<'_> {
    fn check(&self, node: &NodeInfo) -> Result<(), Rejection> {
        if node.name() == self.0 {
            return Ok(());
        }
        Err(Rejection::lasting("node(s) didn't match the requested node name"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::testing::{cluster, judge};
    use crate::testing::{node, pod};

    #[test]
    fn only_the_named_node_will_do() {
        let snapshot = cluster(vec![node("a"), node("b")], vec![]);
        let judged = judge(&NodeName, &pod("p").on("b").info(), &snapshot);
        assert_eq!(judged.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true]);
        assert!(judge(&NodeName, &pod("p").info(), &snapshot).iter().all(Result::is_ok));
    }
}
