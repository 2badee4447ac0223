//! A pod, and what scheduling needs of it.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodSpec, Toleration};
use trireme_client::ObjectKey;

use super::affinity::{NodeAffinity, PodAffinity};
use super::resources::{self, Resources};
use super::{LabelMap, no_labels};

/// A pod, and what scheduling needs of it.
#[derive(Debug, Clone)]
pub struct PodInfo {
    /// The pod.
    pub pod: Arc<Pod>,
    /// What it asks for.
    pub requests: Resources,
    /// What it counts for when nodes are compared.
    pub scoring_requests: Resources,
    /// Ports of the node that it wants.
    pub ports: Vec<HostPort>,
    /// Which nodes it may run on.
    pub node_affinity: NodeAffinity,
    /// Which pods it wants near or far.
    pub pod_affinity: PodAffinity,
}

/// A port of a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    /// The address; `0.0.0.0` for all.
    pub address: String,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// The number.
    pub port: i32,
}

// === impl PodInfo ===

impl PodInfo {
    /// Looks at a pod.
    pub fn new(pod: Arc<Pod>) -> Self {
        static NOTHING: std::sync::LazyLock<PodSpec> = std::sync::LazyLock::new(PodSpec::default);
        let spec = pod.spec.as_ref().unwrap_or(&NOTHING);
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        Self {
            requests: resources::requests(spec),
            scoring_requests: resources::requests_for_scoring(spec),
            ports: host_ports(spec),
            node_affinity: NodeAffinity::of(spec.node_selector.as_ref(), spec.affinity.as_ref()),
            pod_affinity: PodAffinity::of(spec.affinity.as_ref(), namespace),
            pod,
        }
    }

    /// Namespace and name.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::of(&self.pod.metadata)
    }

    /// The uid.
    pub fn uid(&self) -> &str {
        self.pod.metadata.uid.as_deref().unwrap_or_default()
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.pod.metadata.name.as_deref().unwrap_or_default()
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        self.pod.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// The labels.
    pub fn labels(&self) -> &LabelMap {
        self.pod.metadata.labels.as_ref().unwrap_or(no_labels())
    }

    /// The specification, if there is one.
    pub fn spec(&self) -> Option<&PodSpec> {
        self.pod.spec.as_ref()
    }

    /// How important it is.
    pub fn priority(&self) -> i32 {
        self.spec().and_then(|spec| spec.priority).unwrap_or_default()
    }

    /// The node that it is bound to; empty where none.
    pub fn node_name(&self) -> &str {
        self.spec().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
    }

    /// The node that pods are making room on for it; empty where none.
    pub fn nominated_node(&self) -> &str {
        self.pod.status.as_ref().and_then(|status| status.nominated_node_name.as_deref()).unwrap_or_default()
    }

    /// What it tolerates.
    pub fn tolerations(&self) -> &[Toleration] {
        self.spec().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default()
    }

    /// Whether its deletion is asked for.
    pub fn is_terminating(&self) -> bool {
        self.pod.metadata.deletion_timestamp.is_some()
    }

    /// Whether something outside holds it back from being scheduled.
    pub fn is_gated(&self) -> bool {
        self.spec().and_then(|spec| spec.scheduling_gates.as_ref()).is_some_and(|gates| !gates.is_empty())
    }

    /// When its containers started, or else it was made.
    pub fn start_time(&self) -> Option<Timestamp> {
        let started = self.pod.status.as_ref().and_then(|status| status.start_time.as_ref());
        started.or(self.pod.metadata.creation_timestamp.as_ref()).map(|time| time.0)
    }

    /// Whether it may make others go.
    pub fn may_preempt(&self) -> bool {
        self.spec().and_then(|spec| spec.preemption_policy.as_deref()) != Some("Never")
    }
}

// === impl HostPort ===

impl HostPort {
    /// Whether both cannot be had on one node.
    pub fn conflicts(&self, other: &Self) -> bool {
        const ALL: &str = "0.0.0.0";
        self.port == other.port
            && self.protocol == other.protocol
            && (self.address == other.address || self.address == ALL || other.address == ALL)
    }
}

fn host_ports(spec: &PodSpec) -> Vec<HostPort> {
    let sidecars =
        spec.init_containers.iter().flatten().filter(|container| container.restart_policy.as_deref() == Some("Always"));
    let or = |value: &Option<String>, default: &str| {
        value.clone().filter(|value| !value.is_empty()).unwrap_or_else(|| default.to_owned())
    };
    spec.containers
        .iter()
        .chain(sidecars)
        .flat_map(|container| container.ports.iter().flatten())
        .filter_map(|port| {
            let number = port.host_port.filter(|number| *number > 0)?;
            Some(HostPort { address: or(&port.host_ip, "0.0.0.0"), protocol: or(&port.protocol, "TCP"), port: number })
        })
        .collect()
}
