//! The cluster at one moment, as one pod is scheduled.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{LabelMap, NodeInfo, no_labels};

/// The cluster at one moment. Cheap to clone; nothing in it changes.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    nodes: Vec<Arc<NodeInfo>>,
    namespaces: Arc<BTreeMap<String, LabelMap>>,
}

// === impl Snapshot ===

impl Snapshot {
    /// These nodes, and the labels of the namespaces.
    pub fn new(nodes: Vec<Arc<NodeInfo>>, namespaces: Arc<BTreeMap<String, LabelMap>>) -> Self {
        Self { nodes, namespaces }
    }

    /// The nodes, in a fixed order.
    pub fn nodes(&self) -> &[Arc<NodeInfo>] {
        &self.nodes
    }

    /// One node.
    pub fn node(&self, name: &str) -> Option<&Arc<NodeInfo>> {
        self.nodes.iter().find(|node| node.name() == name)
    }

    /// The labels of a namespace; none where it is not known.
    pub fn namespace_labels(&self, name: &str) -> &LabelMap {
        self.namespaces.get(name).unwrap_or(no_labels())
    }

    /// The same cluster with one node as it might be.
    #[must_use]
    pub fn with_node(&self, node: NodeInfo) -> Self {
        let mut snapshot = self.clone();
        if let Some(place) = snapshot.nodes.iter_mut().find(|own| own.name() == node.name()) {
            *place = Arc::new(node);
        }
        snapshot
    }
}
