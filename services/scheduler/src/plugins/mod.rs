//! The plugins, in Kubernetes' order and with its weights.

mod image_locality;
mod inter_pod_affinity;
mod node_affinity;
mod node_name;
mod node_ports;
mod node_resources;
mod node_unschedulable;
mod pod_topology_spread;
mod taint_toleration;

use std::collections::BTreeSet;

use crate::framework::{Filter, Score};
use crate::hints::ClusterEvent;
use crate::model::PodInfo;

/// Which plugins decide.
pub struct Profile {
    /// A pod runs only where all of these let it.
    pub filters: Vec<Box<dyn Filter>>,
    /// The node with the highest weighted sum of these is taken.
    pub scores: Vec<(i64, Box<dyn Score>)>,
}

impl std::fmt::Debug for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.filters.iter().map(|filter| filter.name()).collect();
        f.debug_struct("Profile").field("filters", &names).finish_non_exhaustive()
    }
}

impl Profile {
    /// Whether a pod that these plugins kept off every node may find one after the event. Where no plugin stood in the
    /// way, there was no node at all.
    pub fn helps(&self, plugins: &BTreeSet<&'static str>, pod: &PodInfo, event: &ClusterEvent) -> bool {
        if plugins.is_empty() {
            return event.is_new_node();
        }
        self.filters.iter().any(|filter| plugins.contains(filter.name()) && filter.helps(pod, event))
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            filters: vec![
                Box::new(node_name::NodeName),
                Box::new(node_unschedulable::NodeUnschedulable),
                Box::new(taint_toleration::TaintToleration),
                Box::new(node_affinity::NodeAffinity),
                Box::new(node_ports::NodePorts),
                Box::new(node_resources::Fit),
                Box::new(pod_topology_spread::PodTopologySpread),
                Box::new(inter_pod_affinity::InterPodAffinity),
            ],
            scores: vec![
                (3, Box::new(taint_toleration::TaintToleration)),
                (2, Box::new(node_affinity::NodeAffinity)),
                (1, Box::new(node_resources::Fit)),
                (2, Box::new(pod_topology_spread::PodTopologySpread)),
                (2, Box::new(inter_pod_affinity::InterPodAffinity)),
                (1, Box::new(node_resources::BalancedAllocation)),
                (1, Box::new(image_locality::ImageLocality)),
            ],
        }
    }
}

#[cfg(test)]
mod testing {
    use std::sync::Arc;

    use trireme_machinery::labels::Selector;

    use crate::framework::{Ask, Filter, Prepared, Rejection, Score};
    use crate::model::{NodeInfo, PodInfo};
    use crate::snapshot::Snapshot;
    use crate::testing::{NodeBuilder, PodBuilder};

    /// A cluster of these nodes with these pods on them.
    pub(crate) fn cluster(nodes: Vec<NodeBuilder>, pods: Vec<PodBuilder>) -> Snapshot {
        let mut cache = crate::cache::Cache::default();
        nodes.into_iter().for_each(|node| cache.set_node(node.build()));
        pods.into_iter().for_each(|pod| cache.set_pod(pod.info()));
        cache.snapshot()
    }

    /// What a filter says of each node.
    pub(crate) fn judge(filter: &dyn Filter, pod: &PodInfo, snapshot: &Snapshot) -> Vec<Result<(), Rejection>> {
        let replicas = Selector::everything();
        let nodes = snapshot.nodes().iter();
        match filter.prepare(Ask { pod, snapshot, replicas: &replicas }) {
            Prepared::Skip => nodes.map(|_| Ok(())).collect(),
            Prepared::Check(check) | Prepared::Only(_, check) => nodes.map(|node| check.check(node)).collect(),
            Prepared::Refuse(why) => nodes.map(|_| Err(Rejection::lasting(why.clone()))).collect(),
        }
    }

    /// The normalised scores of each node.
    pub(crate) fn rate(score: &dyn Score, pod: &PodInfo, snapshot: &Snapshot, replicas: &Selector) -> Option<Vec<i64>> {
        let nodes: Vec<&NodeInfo> = snapshot.nodes().iter().map(Arc::as_ref).collect();
        let rate = score.prepare(Ask { pod, snapshot, replicas }, &nodes)?;
        let mut scores: Vec<i64> = nodes.iter().map(|node| rate.rate(node)).collect();
        rate.normalize(&nodes, &mut scores);
        Some(scores)
    }
}
