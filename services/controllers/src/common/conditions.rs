//! Conditions of pods and nodes, and comparing counts that may be absent.

use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod, PodCondition};

/// A condition of a pod.
pub(crate) fn of_pod<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    pod.status.as_ref()?.conditions.as_ref()?.iter().find(|c| c.type_ == kind)
}

/// A condition of a node.
pub(crate) fn of_node<'a>(node: &'a Node, kind: &str) -> Option<&'a NodeCondition> {
    node.status.as_ref()?.conditions.as_ref()?.iter().find(|c| c.type_ == kind)
}

/// A count that is not there when it is zero.
pub(crate) fn count(count: i32) -> Option<i32> {
    Some(count).filter(|c| *c != 0)
}
