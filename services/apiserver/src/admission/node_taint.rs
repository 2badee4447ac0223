//! TaintNodesByCondition: a Node starts with the taint not-ready, so that nothing lands on it too early.

use async_trait::async_trait;
use serde_json::{Value, json};
use trireme_machinery::status::Status;

use super::pod::items;
use super::{Attributes, Operation, Plugin};

const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// The plugin.
pub struct TaintNodesByCondition;

#[async_trait]
impl Plugin for TaintNodesByCondition {
    fn name(&self) -> &'static str {
        "TaintNodesByCondition"
    }

    async fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if !attributes.is("", "nodes") || attributes.operation != Operation::Create {
            return Ok(());
        }
        let Some(node) = attributes.object.as_deref_mut() else { return Ok(()) };
        let spec = &mut node["spec"];
        if items(&spec["taints"]).any(|taint| taint["key"] == NOT_READY && taint["effect"] == "NoSchedule") {
            return Ok(());
        }
        let taint = json!({"key": NOT_READY, "effect": "NoSchedule"});
        match &mut spec["taints"] {
            Value::Array(list) => list.push(taint),
            other => *other = Value::Array(vec![taint]),
        }
        Ok(())
    }
}
