//! PodTopologyLabels: a Pod that is bound to a node carries the node's zone and region.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use trireme_kinds::Kind;
use trireme_machinery::meta;
use trireme_machinery::status::Status;

use super::{Attributes, Operation, Plugin};
use crate::pipeline::Objects;

const LABELS: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

/// The plugin.
pub struct PodTopologyLabels {
    objects: Arc<dyn Objects>,
    nodes: Arc<Kind>,
}

impl PodTopologyLabels {
    /// Reads `nodes` from the cache.
    #[must_use]
    pub fn new(objects: Arc<dyn Objects>, nodes: Arc<Kind>) -> Self {
        Self { objects, nodes }
    }
}

#[async_trait]
impl Plugin for PodTopologyLabels {
    fn name(&self) -> &'static str {
        "PodTopologyLabels"
    }

    async fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if attributes.operation != Operation::Create {
            return Ok(());
        }
        let object = attributes.object();
        let binding = attributes.is_sub("", "pods", "binding") || attributes.is("", "bindings");
        let node = if binding && object["target"]["kind"] == "Node" {
            &object["target"]["name"]
        } else if attributes.is("", "pods") {
            &object["spec"]["nodeName"]
        } else {
            return Ok(());
        };
        let node = node.as_str().and_then(|name| self.objects.reader().get(&self.nodes, "", name));
        let Some(node) = node else { return Ok(()) };
        let Some(object) = attributes.object.as_deref_mut() else { return Ok(()) };
        for label in LABELS {
            if let Some(value) = node.label(label) {
                meta::set_label(object, label, value);
            }
        }
        Ok(())
    }
}

/// The labels that a binding brings for its Pod.
#[must_use]
pub fn labels_of(binding: &Value) -> Vec<(String, String)> {
    let wanted = LABELS.iter().filter_map(|label| Some(((*label).to_owned(), meta::label(binding, label)?.to_owned())));
    wanted.collect()
}
