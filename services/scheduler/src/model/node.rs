//! A node with the pods on it.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Taint};
use trireme_machinery::quantity::Quantity;

use super::{HostPort, LabelMap, PodInfo, Resources, no_labels};

/// A node with the pods on it.
#[derive(Debug, Clone)]
pub struct NodeInfo {
    /// The node.
    pub node: Arc<Node>,
    /// What it has for pods.
    pub allocatable: Resources,
    /// How many pods it takes.
    pub allowed_pods: i64,
    /// Sizes of the images it has, by name.
    pub images: Arc<BTreeMap<String, i64>>,
    pods: Vec<Arc<PodInfo>>,
    requested: Resources,
    scoring_requested: Resources,
}

// === impl NodeInfo ===

impl NodeInfo {
    /// A node without pods.
    pub fn new(node: Arc<Node>) -> Self {
        let status = node.status.as_ref();
        let allocatable = status.and_then(|status| status.allocatable.as_ref());
        let allowed_pods = allocatable
            .and_then(|list| list.get("pods"))
            .and_then(|pods| Quantity::parse(&pods.0).ok())
            .map_or(0, |pods| pods.value());
        let images = status
            .and_then(|status| status.images.as_ref())
            .into_iter()
            .flatten()
            .flat_map(|image| {
                image.names.iter().flatten().map(|name| (name.clone(), image.size_bytes.unwrap_or_default()))
            })
            .collect();
        Self {
            allocatable: Resources::of(allocatable),
            allowed_pods,
            images: Arc::new(images),
            node,
            pods: Vec::new(),
            requested: Resources::default(),
            scoring_requested: Resources::default(),
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.node.metadata.name.as_deref().unwrap_or_default()
    }

    /// The labels.
    pub fn labels(&self) -> &LabelMap {
        self.node.metadata.labels.as_ref().unwrap_or(no_labels())
    }

    /// One label.
    pub fn label(&self, key: &str) -> Option<&String> {
        self.labels().get(key)
    }

    /// The taints.
    pub fn taints(&self) -> &[Taint] {
        self.node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
    }

    /// Whether it is cordoned.
    pub fn is_unschedulable(&self) -> bool {
        self.node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default()
    }

    /// The pods on it.
    pub fn pods(&self) -> &[Arc<PodInfo>] {
        &self.pods
    }

    /// What they ask for together.
    pub fn requested(&self) -> &Resources {
        &self.requested
    }

    /// What they count for together when nodes are compared.
    pub fn scoring_requested(&self) -> &Resources {
        &self.scoring_requested
    }

    /// Whether one of the ports is taken.
    pub fn takes_port(&self, wanted: &[HostPort]) -> bool {
        !wanted.is_empty()
            && self.pods.iter().flat_map(|pod| &pod.ports).any(|taken| wanted.iter().any(|port| port.conflicts(taken)))
    }

    /// Puts a pod on it.
    pub fn add_pod(&mut self, pod: Arc<PodInfo>) {
        self.requested.add(&pod.requests);
        self.scoring_requested.add(&pod.scoring_requests);
        self.pods.push(pod);
    }

    /// Takes a pod off it.
    pub fn remove_pod(&mut self, uid: &str) -> Option<Arc<PodInfo>> {
        let at = self.pods.iter().position(|pod| pod.uid() == uid)?;
        let pod = self.pods.remove(at);
        self.requested.sub(&pod.requests);
        self.scoring_requested.sub(&pod.scoring_requests);
        Some(pod)
    }
}
