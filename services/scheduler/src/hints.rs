//! What happens in the cluster, as far as it may help a pod that found no node.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;

use crate::model::{NodeInfo, PodInfo};

/// Something that happened.
#[derive(Debug, Clone)]
pub enum ClusterEvent {
    /// A node came (`old` is none), or changed in something that matters.
    Node {
        /// As it was.
        old: Option<Arc<NodeInfo>>,
        /// As it is, without its pods' room.
        new: Arc<NodeInfo>,
    },
    /// A node went.
    NodeGone(Arc<NodeInfo>),
    /// A pod was bound.
    PodBound(Arc<PodInfo>),
    /// A bound pod changed its labels or asks for less.
    PodChanged {
        /// As it was.
        old: Arc<PodInfo>,
        /// As it is.
        new: Arc<PodInfo>,
    },
    /// A bound pod went.
    PodGone {
        /// The pod.
        pod: Arc<PodInfo>,
        /// The node that has its room now, if that is known.
        node: Option<Arc<NodeInfo>>,
    },
    /// The pod itself, which found no node, changed.
    PodItself {
        /// As it was.
        old: Arc<PodInfo>,
        /// As it is.
        new: Arc<PodInfo>,
    },
}

// === impl ClusterEvent ===

impl ClusterEvent {
    /// A node came or changed; `None` where nothing changed that a pod's placement depends on.
    pub fn node(old: Option<&Arc<NodeInfo>>, new: &Arc<Node>) -> Option<Self> {
        let new = Arc::new(NodeInfo::new(new.clone()));
        if let Some(old) = old
            && old.allocatable == new.allocatable
            && old.allowed_pods == new.allowed_pods
            && old.labels() == new.labels()
            && old.taints() == new.taints()
            && old.is_unschedulable() == new.is_unschedulable()
        {
            return None;
        }
        Some(Self::Node { old: old.cloned(), new })
    }

    /// Whether a node came.
    pub fn is_new_node(&self) -> bool {
        matches!(self, Self::Node { old: None, .. })
    }
}
