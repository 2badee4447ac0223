//! One constraint: how uneven pods of a kind may be spread over the values of a label.

use k8s_openapi::api::core::v1::TopologySpreadConstraint;
use trireme_machinery::labels::{Operator, Requirement, Selector};

use crate::model::{HOSTNAME, NodeInfo, PodInfo, selector, taints};

const ZONE: &str = "topology.kubernetes.io/zone";

/// What happens to a node that would make it too uneven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strength {
    /// The pod does not run there.
    Hard,
    /// It counts against the node.
    Soft,
}

#[derive(Debug, Clone)]
pub(super) struct Constraint {
    pub(super) max_skew: i64,
    pub(super) topology_key: String,
    pub(super) selector: Selector,
    pub(super) min_domains: usize,
    honors_affinity: bool,
    honors_taints: bool,
}

impl Constraint {
    /// The pod's own constraints of a strength.
    pub(super) fn of(pod: &PodInfo, strength: Strength) -> Vec<Self> {
        let wanted = match strength {
            Strength::Hard => "DoNotSchedule",
            Strength::Soft => "ScheduleAnyway",
        };
        own(pod)
            .iter()
            .filter(|constraint| constraint.when_unsatisfiable == wanted)
            .map(|c| Self::parse(c, pod))
            .collect()
    }

    /// Whether the pod has constraints of its own.
    pub(super) fn has_any(pod: &PodInfo) -> bool {
        !own(pod).is_empty()
    }

    /// The soft constraints of a pod that has none: over nodes, and less so over zones.
    pub(super) fn defaults(replicas: &Selector) -> Vec<Self> {
        if replicas.is_empty() {
            return Vec::new();
        }
        [(HOSTNAME, 3), (ZONE, 5)]
            .map(|(key, max_skew)| Self {
                max_skew,
                topology_key: key.to_owned(),
                selector: replicas.clone(),
                min_domains: 1,
                honors_affinity: true,
                honors_taints: false,
            })
            .into()
    }

    fn parse(constraint: &TopologySpreadConstraint, pod: &PodInfo) -> Self {
        let same = constraint.match_label_keys.iter().flatten().filter_map(|key| {
            let value = pod.labels().get(key)?.clone();
            Some(Requirement { key: key.clone(), operator: Operator::Equals, values: vec![value] })
        });
        let honors =
            |policy: &Option<String>, default: bool| policy.as_deref().map_or(default, |policy| policy == "Honor");
        Self {
            max_skew: i64::from(constraint.max_skew),
            topology_key: constraint.topology_key.clone(),
            selector: selector(constraint.label_selector.as_ref()).and(same),
            min_domains: constraint.min_domains.and_then(|domains| usize::try_from(domains).ok()).unwrap_or(1),
            honors_affinity: honors(&constraint.node_affinity_policy, true),
            honors_taints: honors(&constraint.node_taints_policy, false),
        }
    }

    /// Which part of the cluster a node is in.
    pub(super) fn domain<'n>(&self, node: &'n NodeInfo) -> Option<&'n str> {
        node.label(&self.topology_key).map(String::as_str)
    }

    /// Whether pods on the node count.
    pub(super) fn includes(&self, pod: &PodInfo, node: &NodeInfo) -> bool {
        (!self.honors_affinity || pod.node_affinity.allows(node))
            && (!self.honors_taints || taints::first_untolerated(node.taints(), pod.tolerations()).is_none())
    }

    pub(super) fn is_by_node(&self) -> bool {
        self.topology_key == HOSTNAME
    }
}

fn own(pod: &PodInfo) -> &[TopologySpreadConstraint] {
    pod.spec().and_then(|spec| spec.topology_spread_constraints.as_deref()).unwrap_or_default()
}
