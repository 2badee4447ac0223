//! DefaultTolerationSeconds: a Pod stays five minutes on a node that is not ready or unreachable.

use async_trait::async_trait;
use serde_json::{Value, json};
use trireme_machinery::status::Status;

use super::pod::{items, text};
use super::{Attributes, Operation, Plugin};

const SECONDS: i64 = 300;
const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// The plugin.
pub struct DefaultTolerationSeconds;

#[async_trait]
impl Plugin for DefaultTolerationSeconds {
    fn name(&self) -> &'static str {
        "DefaultTolerationSeconds"
    }

    async fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if !attributes.is("", "pods") || !matches!(attributes.operation, Operation::Create | Operation::Update) {
            return Ok(());
        }
        if let Some(spec) = attributes.object.as_deref_mut().and_then(|pod| pod.get_mut("spec")) {
            add_defaults(spec);
        }
        Ok(())
    }
}

fn add_defaults(spec: &mut Value) {
    for taint in TAINTS {
        let tolerated = items(&spec["tolerations"]).any(|toleration| {
            let (key, effect) = (text(toleration, "key"), text(toleration, "effect"));
            (key == taint || key.is_empty()) && matches!(effect, "NoExecute" | "")
        });
        if !tolerated {
            let toleration =
                json!({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS});
            match &mut spec["tolerations"] {
                Value::Array(list) => list.push(toleration),
                other => *other = Value::Array(vec![toleration]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_what_is_missing() {
        let mut spec = json!({"tolerations": [{"key": TAINTS[0], "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]});
        add_defaults(&mut spec);
        add_defaults(&mut spec);
        let list = spec["tolerations"].as_array().unwrap();
        assert_eq!(list.len(), 2);
        assert_eq!((&list[0]["tolerationSeconds"], &list[1]["tolerationSeconds"]), (&json!(5), &json!(300)));
        let mut all = json!({"tolerations": [{"operator": "Exists"}]});
        add_defaults(&mut all);
        assert_eq!(all["tolerations"].as_array().unwrap().len(), 1);
    }
}
