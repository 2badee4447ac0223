//! Registers the node and keeps its status true: looked at every few seconds, written when it changed or got old.

use super::pressure::{self, Pressures};
use super::runtime::Condition;
use super::status::{self, Inputs};
use crate::api::Nodes;
use crate::config::Config;
use crate::cri::Cri;
use crate::error::{Error, Result};
use crate::host::Machine;
use crate::pleg::LastLook;
use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeSpec, NodeStatus, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use trireme_client::context::untraced;

/// A status that did not change is written this often all the same.
const REPORT: Duration = Duration::from_secs(300);

/// The node's object and all that its status depends on.
pub struct Registration {
    /// Flags.
    pub config: Config,
    /// The machine.
    pub machine: Machine,
    /// Where the kubelet serves.
    pub port: u16,
    /// The runtime.
    pub cri: Cri,
    /// What the runtime says of itself.
    pub runtime: watch::Receiver<Condition>,
    /// When it was last seen whole.
    pub last_look: LastLook,
    /// The API.
    pub nodes: Arc<dyn Nodes>,
}

impl Registration {
    /// Registers, then keeps the status true for ever.
    pub async fn run(mut self) {
        let mut last: Option<(NodeStatus, Instant)> = None;
        let mut pressures = Pressures::default();
        let mut registered = false;
        let mut pause = Duration::from_millis(100);
        // The first look at the runtime comes in a moment; a node that is registered before it is not Ready.
        let first = self.runtime.wait_for(|condition| condition.runtime.is_ok() && condition.network.is_ok());
        if tokio::time::timeout(Duration::from_millis(300), first).await.is_err() {
            tracing::info!("the runtime or its network is not ready yet");
        }
        loop {
            let (condition, last_look) = (self.runtime.borrow_and_update().clone(), *self.last_look.borrow());
            let known = match untraced(self.known()).await {
                Ok(known) => known,
                Err(error) => {
                    tracing::info!(%error, "the node's object was not read");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(self.config.status_frequency);
                    continue;
                }
            };
            // Deleted: it is made again.
            registered &= known.is_some();
            let previous = known.unwrap_or_default();
            let seen = pressure::look(&self.config.root_dir, &self.config.thresholds);
            let status = status::generate(Inputs {
                config: &self.config,
                machine: &self.machine,
                port: self.port,
                runtime: &condition,
                identity: self.cri.identity(),
                last_look: last_look.or_else(|| registered.then(Instant::now).filter(|_| condition.runtime.is_ok())),
                images: status::images(&self.cri).await,
                pressure: pressures.told(seen, self.config.pressure_period, Instant::now()),
                previous: &previous,
                now: Timestamp::now(),
            });
            let outcome = if registered {
                self.update(&status, &previous, last.as_ref()).await
            } else {
                untraced(self.register(&status)).await.map(|()| true)
            };
            match outcome {
                Ok(written) => {
                    registered = true;
                    pause = Duration::from_millis(100);
                    if written {
                        last = Some((status, Instant::now()));
                    }
                }
                Err(error) => {
                    tracing::info!(%error, "the node's status was not written");
                    registered &= !error.is_not_found();
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(self.config.status_frequency);
                    continue;
                }
            }
            tokio::select! {
                () = tokio::time::sleep(self.config.status_frequency) => {}
                changed = self.runtime.changed() => {
                    if changed.is_err() { return }
                }
            }
        }
    }

    /// The conditions that the API server has of this node: those before a restart, and what others have written since;
    /// nothing if there is no such node.
    async fn known(&self) -> Result<Option<Vec<NodeCondition>>> {
        match self.nodes.get(&self.config.node_name).await {
            Ok(node) => Ok(Some(node.status.and_then(|status| status.conditions).unwrap_or_default())),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Says whether it wrote.
    async fn update(
        &self,
        status: &NodeStatus,
        known: &[NodeCondition],
        last: Option<&(NodeStatus, Instant)>,
    ) -> Result<bool> {
        if let Some((written, at)) = last
            && at.elapsed() < REPORT
            && without_heartbeats(written) == without_heartbeats(status)
            && status.conditions.iter().flatten().all(|ours| known.iter().any(|theirs| is_same(ours, theirs)))
        {
            return Ok(false);
        }
        untraced(self.nodes.patch_status(&self.config.node_name, patch(status))).await?;
        Ok(true)
    }

    async fn register(&self, status: &NodeStatus) -> Result<()> {
        let name = &self.config.node_name;
        let node = self.object(status);
        match self.nodes.create(&node).await {
            Ok(_) => {
                tracing::info!(node = name, "registered");
                Ok(())
            }
            Err(Error::Exists(_)) => {
                let labels =
                    json!({"metadata": {"labels": node.metadata.labels, "annotations": node.metadata.annotations}});
                self.nodes.patch(name, labels).await?;
                self.nodes.patch_status(name, patch(status)).await?;
                tracing::info!(node = name, "was registered before");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn object(&self, status: &NodeStatus) -> Node {
        let config = &self.config;
        let arch = status.node_info.as_ref().map(|info| info.architecture.clone()).unwrap_or_default();
        let mut labels: BTreeMap<String, String> = [
            ("beta.kubernetes.io/arch", arch.as_str()),
            ("beta.kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", arch.as_str()),
            ("kubernetes.io/hostname", config.node_name.as_str()),
            ("kubernetes.io/os", "linux"),
        ]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
        labels.extend(config.node_labels.clone());
        let annotation = ("volumes.kubernetes.io/controller-managed-attach-detach".to_owned(), "true".to_owned());
        let taints: Vec<Taint> = config
            .taints
            .iter()
            .map(|(key, value, effect)| Taint {
                key: key.clone(),
                value: Some(value.clone()).filter(|value| !value.is_empty()),
                effect: effect.clone(),
                time_added: None,
            })
            .collect();
        Node {
            metadata: ObjectMeta {
                name: Some(config.node_name.clone()),
                labels: Some(labels),
                annotations: Some(BTreeMap::from([annotation])),
                ..ObjectMeta::default()
            },
            spec: Some(NodeSpec {
                provider_id: config.provider_id.clone(),
                taints: (!taints.is_empty()).then_some(taints),
                ..NodeSpec::default()
            }),
            status: Some(status.clone()),
        }
    }
}

/// Says the API server what we say?
fn is_same(ours: &NodeCondition, theirs: &NodeCondition) -> bool {
    let words = |of: &NodeCondition| (of.type_.clone(), of.status.clone(), of.reason.clone(), of.message.clone());
    words(ours) == words(theirs)
}

fn without_heartbeats(status: &NodeStatus) -> NodeStatus {
    let mut status = status.clone();
    for condition in status.conditions.iter_mut().flatten() {
        condition.last_heartbeat_time = None;
    }
    status
}

/// A strategic merge patch: conditions of others stay, addresses and images are ours alone.
fn patch(status: &NodeStatus) -> Value {
    let mut body = json!(status);
    if let Some(addresses) = body.get_mut("addresses").and_then(Value::as_array_mut) {
        addresses.push(json!({"$patch": "replace"}));
    }
    json!({"status": body})
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;
    use k8s_openapi::api::coordination::v1::Lease;
    use tokio::sync::mpsc;

    const BEFORE: &str = "2026-01-01T00:00:00Z";

    /// An API server that has one node already, and tells what is written.
    struct Known(mpsc::UnboundedSender<Value>);

    #[async_trait::async_trait]
    impl Nodes for Known {
        async fn get(&self, _: &str) -> Result<Node> {
            let condition = |type_: &str, status: &str| json!({"type": type_, "status": status, "lastTransitionTime": BEFORE, "lastHeartbeatTime": BEFORE});
            let conditions = [condition("MemoryPressure", "False"), condition("Ready", "Unknown")];
            Ok(serde_json::from_value(json!({"metadata": {"name": "n"}, "status": {"conditions": conditions}}))
                .unwrap())
        }
        async fn create(&self, _: &Node) -> Result<Node> {
            Err(Error::Exists("n".into()))
        }
        async fn patch(&self, _: &str, _: Value) -> Result<Node> {
            Ok(Node::default())
        }
        async fn patch_status(&self, _: &str, patch: Value) -> Result<Node> {
            let _ = self.0.send(patch);
            Ok(Node::default())
        }
        async fn lease(&self, _: &str) -> Result<Lease> {
            Err(Error::NotFound("n".into()))
        }
        async fn create_lease(&self, lease: &Lease) -> Result<Lease> {
            Ok(lease.clone())
        }
        async fn update_lease(&self, lease: &Lease) -> Result<Lease> {
            Ok(lease.clone())
        }
    }

    #[tokio::test]
    async fn a_restart_is_no_transition_and_what_others_wrote_is_put_right() {
        let flags = [
            "x",
            "--hostname-override=n",
            "--node-status-update-frequency=10ms",
            "--eviction-hard=memory.available<0%",
        ];
        let (_runtime, runtime) = watch::channel(Condition { runtime: Ok(()), network: Ok(()) });
        let (_look, last_look) = watch::channel(Some(Instant::now()));
        let (told, mut written) = mpsc::unbounded_channel();
        let registration = Registration {
            config: Config::resolve(&crate::Flags::parse_from(flags)).unwrap(),
            machine: Machine::default(),
            port: 1,
            cri: Cri::absent(),
            runtime,
            last_look,
            nodes: Arc::new(Known(told)),
        };
        let task = tokio::spawn(registration.run());
        // The second one only because the API server does not say what was written.
        for _ in 0..2 {
            let patch = tokio::time::timeout(Duration::from_secs(20), written.recv()).await.unwrap().unwrap();
            let all = patch["status"]["conditions"].as_array().unwrap();
            let of = |type_: &str| all.iter().find(|condition| condition["type"] == type_).unwrap();
            assert_eq!(of("MemoryPressure")["lastTransitionTime"], BEFORE, "it did not change");
            assert_eq!(of("Ready")["status"], "True");
            assert_ne!(of("Ready")["lastTransitionTime"], BEFORE, "it did");
        }
        task.abort();
    }
}
