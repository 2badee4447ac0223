//! PodTopologySpread: pods that belong together are spread over zones and nodes, by the pod's constraints or, where it
//! has none, evenly over nodes and zones as far as it can be had.

mod constraint;
mod filter;
mod score;

use crate::framework::{Ask, Filter, Prepared, Rate, Score};
use crate::hints::ClusterEvent;
use crate::model::{NodeInfo, PodInfo};

use constraint::{Constraint, Strength};

/// Pods that belong together are spread.
pub(crate) struct PodTopologySpread;

impl Filter for PodTopologySpread {
    fn name(&self) -> &'static str {
        "PodTopologySpread"
    }

    fn prepare<'a>(&self, ask: Ask<'a>) -> Prepared<'a> {
        let constraints = Constraint::of(ask.pod, Strength::Hard);
        if constraints.is_empty() {
            Prepared::Skip
        } else {
            Prepared::Check(Box::new(filter::Skew::new(ask, constraints)))
        }
    }

    fn helps(&self, pod: &PodInfo, event: &ClusterEvent) -> bool {
        let constraints = Constraint::of(pod, Strength::Hard);
        let counts = |other: &PodInfo| {
            other.namespace() == pod.namespace()
                && constraints.iter().any(|constraint| constraint.selector.matches(other.labels()))
        };
        let matters = |node: &NodeInfo| constraints.iter().all(|constraint| constraint.domain(node).is_some());
        match event {
            ClusterEvent::PodBound(other) | ClusterEvent::PodGone { pod: other, .. } => counts(other),
            ClusterEvent::PodChanged { old, new } => counts(old) != counts(new),
            ClusterEvent::PodItself { old, new } => {
                old.labels() != new.labels() || old.tolerations() != new.tolerations()
            }
            ClusterEvent::NodeGone(node) => matters(node),
            ClusterEvent::Node { old: None, new } => matters(new),
            ClusterEvent::Node { old: Some(old), new } => {
                let moved = constraints.iter().any(|constraint| constraint.domain(old) != constraint.domain(new));
                matters(old) != matters(new) || (matters(new) && (moved || old.taints() != new.taints()))
            }
        }
    }
}

impl Score for PodTopologySpread {
    fn name(&self) -> &'static str {
        "PodTopologySpread"
    }

    fn prepare<'a>(&self, ask: Ask<'a>, feasible: &[&'a NodeInfo]) -> Option<Box<dyn Rate + 'a>> {
        let own = Constraint::of(ask.pod, Strength::Soft);
        // A node without all of the pod's own topologies is left out; the default ones are no demand.
        let (constraints, demand) =
            if Constraint::has_any(ask.pod) { (own, true) } else { (Constraint::defaults(ask.replicas), false) };
        (!constraints.is_empty())
            .then(|| Box::new(score::Evenness::new(ask, constraints, demand, feasible)) as Box<dyn Rate>)
    }
}

/// How many pods of a namespace on a node a selector means; those that go do not count.
fn count(node: &NodeInfo, namespace: &str, constraint: &Constraint) -> i64 {
    if constraint.selector.is_empty() {
        return 0;
    }
    let counts = |pod: &&std::sync::Arc<PodInfo>| {
        !pod.is_terminating() && pod.namespace() == namespace && constraint.selector.matches(pod.labels())
    };
    node.pods().iter().filter(counts).count() as i64
}

#[cfg(test)]
mod tests;
