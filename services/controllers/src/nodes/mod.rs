//! Nodes: whether they live, what that means for their pods, and the addresses their pods get.

mod health;
pub(crate) mod ipam;
pub(crate) mod lifecycle;
pub(crate) mod pod_gc;
mod taints;
pub(crate) mod tolerations;
pub(crate) mod ttl;
mod zones;

use k8s_openapi::api::core::v1::{Node, ObjectReference};
use trireme_client::{EventRecorder, EventType, Object};

/// What people see events about a node under: nodes are known by their names there.
fn reference(node: &Node) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: node.metadata.name.clone(),
        uid: Some(node.uid().to_owned()),
        ..ObjectReference::default()
    }
}

fn tell_event(events: &EventRecorder, node: &Node, reason: &str, what: &str) {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    events.event_for(reference(node), EventType::Normal, reason, format!("Node {name} event: {what}"));
}

fn tell_status(events: &EventRecorder, node: &Node, status: &str) {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    events.event_for(reference(node), EventType::Normal, status, format!("Node {name} status is now: {status}"));
}
