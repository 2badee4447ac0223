//! Registers the node and keeps its status true: looked at every few seconds, written when it changed or got old.

use super::news;
use super::pressure::{self, Pressures};
use super::runtime::Condition;
use super::status::{self, Inputs};
use crate::api::{Events, Nodes};
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
    /// What people see.
    pub events: Arc<dyn Events>,
}

impl Registration {
    /// Registers, then keeps the status true for ever.
    pub async fn run(mut self) {
        self.events.node(false, "Starting", "Starting kubelet.".to_owned());
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
                        self.tell(&previous, &status);
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

    /// Events of what is news to the API server.
    fn tell(&self, known: &[NodeCondition], status: &NodeStatus) {
        for reason in news::between(known, status.conditions.as_deref().unwrap_or_default()) {
            let what = format!("Node {} status is now: {reason}", self.config.node_name);
            self.events.node(false, reason, what);
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
#[path = "register_tests.rs"]
mod tests;
