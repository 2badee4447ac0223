//! InterPodAffinity: a pod runs near the pods that it wants near, and away from those that one of both wants away.

mod filter;
mod score;

use crate::framework::{Ask, Filter, Prepared, Rate, Score};
use crate::hints::ClusterEvent;
use crate::model::affinity::PodTerm;
use crate::model::{NodeInfo, PodInfo};
use crate::snapshot::Snapshot;

/// A pod runs near the pods that it wants near, and away from those that one of both wants away.
pub(crate) struct InterPodAffinity;

impl Filter for InterPodAffinity {
    fn name(&self) -> &'static str {
        "InterPodAffinity"
    }

    fn prepare<'a>(&self, ask: Ask<'a>) -> Prepared<'a> {
        match filter::Neighbours::new(ask) {
            Some(neighbours) => Prepared::Check(Box::new(neighbours)),
            None => Prepared::Skip,
        }
    }

    /// Namespaces are not known here, so a term with a namespace selector is taken for one that may match.
    fn helps(&self, pod: &PodInfo, event: &ClusterEvent) -> bool {
        let own = &pod.pod_affinity;
        let unknown = Snapshot::default();
        let all =
            |terms: &[PodTerm], other: &PodInfo| !terms.is_empty() && terms.iter().all(|t| t.matches(other, &unknown));
        let any = |terms: &[PodTerm], other: &PodInfo| terms.iter().any(|term| term.matches(other, &unknown));
        match event {
            ClusterEvent::PodBound(other) => all(&own.required, other),
            ClusterEvent::PodGone { pod: other, .. } => {
                any(&own.required_anti, other) || any(&other.pod_affinity.required_anti, pod)
            }
            ClusterEvent::PodChanged { old, new } => {
                (!all(&own.required, old) && all(&own.required, new))
                    || (any(&own.required_anti, old) && !any(&own.required_anti, new))
            }
            ClusterEvent::PodItself { old, new } => old.labels() != new.labels(),
            ClusterEvent::Node { old: None, new } => {
                !own.required_anti.is_empty() || own.required.iter().any(|term| term.domain(new).is_some())
            }
            ClusterEvent::Node { old: Some(old), new } => {
                own.required.iter().chain(&own.required_anti).any(|term| term.domain(old) != term.domain(new))
            }
            ClusterEvent::NodeGone(_) => false,
        }
    }
}

impl Score for InterPodAffinity {
    fn name(&self) -> &'static str {
        "InterPodAffinity"
    }

    fn prepare<'a>(&self, ask: Ask<'a>, _: &[&'a NodeInfo]) -> Option<Box<dyn Rate + 'a>> {
        score::Attraction::new(ask).map(|attraction| Box::new(attraction) as Box<dyn Rate>)
    }
}

#[cfg(test)]
mod tests;
