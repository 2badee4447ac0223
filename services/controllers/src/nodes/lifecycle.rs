//! The life cycle of nodes: a node without signs of life becomes unknown, its conditions become taints, and the pods of
//! one that is silent are not ready any more. Looks at each node every `--node-monitor-period`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;
use trireme_client::{
    Action, Change, Client, Clock, Controller, Error, EventRecorder, EventType, Object, ObjectKey, Patch, PatchParams,
    PostParams, ReconcileError, Reconciler, Store,
};

use super::health::{self, Health, Signs};
use super::taints::{self, Eviction};
use super::zones::{self, Limits, Rates, Turn, Zones};
use super::{tell_event, tell_status};
use crate::cluster::{Cluster, POD_NODE};
use crate::common::{conditions, pods};

const NAME: &str = "node-lifecycle";
const LEASES: &str = "kube-node-lease";
/// Older labels that are kept the same as the newer ones.
const LABELS: [(&str, &str); 2] =
    [("kubernetes.io/os", "beta.kubernetes.io/os"), ("kubernetes.io/arch", "beta.kubernetes.io/arch")];

struct Nodes {
    client: Client,
    events: EventRecorder,
    nodes: Store<Node>,
    pods: Store<Pod>,
    leases: Store<Lease>,
    clock: Clock,
    period: Duration,
    grace: Duration,
    startup: Duration,
    rates: Rates,
    seen: Mutex<Seen>,
}

/// What this worker has seen itself; lost with it, and then every node has its grace anew.
#[derive(Default)]
struct Seen {
    health: HashMap<String, (Health, Arc<Node>)>,
    limits: Limits,
    /// No node is ready; nothing before the first look.
    dark: Option<bool>,
}

/// The controller and its work.
pub(crate) fn controller(cluster: &Cluster) -> (Controller, Arc<dyn Reconciler>) {
    let (nodes, pods, leases) = (cluster.nodes(), cluster.pods(), cluster.node_leases());
    let controller = cluster
        .controller(NAME)
        .quiet()
        .watch(&nodes, |node| vec![node.key()])
        // A pod that is assigned to a node that is silent.
        .watch_changes(&pods, |change| match change {
            Change::Updated { old, new } if node_of(old) != node_of(new) => node_of(new).into_iter().collect(),
            _ => Vec::new(),
        })
        .reads(&leases);
    let config = &cluster.config;
    let reconciler = Nodes {
        client: cluster.client.clone(),
        events: cluster.events("node-controller"),
        nodes: nodes.store(),
        pods: pods.store(),
        leases: leases.store(),
        clock: cluster.clock.clone(),
        period: config.node_monitor_period,
        grace: config.node_monitor_grace_period,
        startup: config.node_startup_grace_period,
        rates: Rates {
            normal: config.node_eviction_rate,
            secondary: config.secondary_node_eviction_rate,
            large: config.large_cluster_size_threshold,
            threshold: config.unhealthy_zone_threshold,
        },
        seen: Mutex::default(),
    };
    (controller, Arc::new(reconciler))
}

fn node_of(pod: &Pod) -> Option<ObjectKey> {
    pod.spec.as_ref()?.node_name.as_ref().map(ObjectKey::cluster)
}

#[async_trait::async_trait]
impl Reconciler for Nodes {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let Some(node) = self.nodes.get(key) else {
            if let Some((_, node)) = self.seen.lock().health.remove(&key.name) {
                tell_event(&self.events, &node, "RemovingNode", &format!("Removing Node {} from Controller", key.name));
            }
            return Ok(Action::Done);
        };
        let node = if self.is_silent(&node) && self.is_really_silent(&node).await? {
            self.mark_unknown(node).await?
        } else {
            node
        };
        let wait = self.put_right(&node).await?;
        if conditions::of_node(&node, "Ready").is_some_and(|c| c.status == "Unknown") {
            self.mark_pods(&key.name).await?;
        }
        Ok(Action::RequeueAfter(wait.map_or(self.period, |w| w.min(self.period))))
    }
}

impl Nodes {
    fn renewed(&self, name: &str) -> Option<jiff::Timestamp> {
        let lease = self.leases.find(LEASES, name)?;
        lease.spec.as_ref()?.renew_time.as_ref().map(|t| t.0)
    }

    /// No sign of life for longer than its grace, as far as the informers know.
    fn is_silent(&self, node: &Arc<Node>) -> bool {
        let name = node.key().name;
        let signs = Signs::of(node, self.renewed(&name));
        let now = Instant::now();
        let mut seen = self.seen.lock();
        let known = seen.health.get(&name).is_some_and(|(health, _)| health.is_of(node.uid()));
        if !known {
            seen.health.insert(name.clone(), (Health::new(node.uid(), signs, now), node.clone()));
            tell_event(&self.events, node, "RegisteredNode", &format!("Registered Node {name} in Controller"));
        }
        let Some((health, last)) = seen.health.get_mut(&name) else { return false };
        *last = node.clone();
        health.see(signs, now) > health::grace(node, self.grace, self.startup)
    }

    /// The informer may be behind, or this worker cut off: the Lease is looked at itself.
    async fn is_really_silent(&self, node: &Node) -> Result<bool, Error> {
        let name = node.key().name;
        let lease = self.client.namespaced::<Lease>(LEASES).get_opt(&name).await?;
        let renewed = lease.and_then(|l| l.spec?.renew_time).map(|t| t.0);
        let silent = renewed <= self.renewed(&name);
        if !silent && let Some((health, _)) = self.seen.lock().health.get_mut(&name) {
            health.see(Signs::of(node, renewed), Instant::now());
        }
        Ok(silent)
    }

    async fn mark_unknown(&self, node: Arc<Node>) -> Result<Arc<Node>, Error> {
        let Some(unknown) = health::unknown(&node, self.clock.now_seconds()) else { return Ok(node) };
        let was_ready = conditions::of_node(&node, "Ready").is_some_and(|c| c.status == "True");
        let mut next = (*node).clone();
        next.status.get_or_insert_default().conditions = Some(unknown);
        let next = self.client.api::<Node>().update_status(&PostParams::default(), &next).await?;
        if was_ready {
            tell_status(&self.events, &next, "NodeNotReady");
        }
        Ok(Arc::new(next))
    }

    /// Taints and labels. Gives back when to look again, if a taint has to wait for its turn.
    async fn put_right(&self, node: &Node) -> Result<Option<Duration>, Error> {
        let (eviction, wait) = self.eviction(node);
        let mut patch = serde_json::Map::new();
        if let Some(taints) = taints::plan(node, eviction, self.clock.now_seconds()) {
            patch.insert("spec".to_owned(), json!({"taints": taints}));
        }
        let mut metadata = serde_json::Map::new();
        let labels = missing_labels(node);
        if !labels.is_empty() {
            metadata.insert("labels".to_owned(), Value::Object(labels));
        }
        if !patch.is_empty() || !metadata.is_empty() {
            // Taints are a whole list: only if nobody else changed the node meanwhile.
            metadata.insert("resourceVersion".to_owned(), json!(node.metadata.resource_version));
            patch.insert("metadata".to_owned(), Value::Object(metadata));
            let patch = Patch::Merge(Value::Object(patch));
            self.client.api::<Node>().patch(&node.key().name, &PatchParams::default(), &patch).await?;
        }
        Ok(wait)
    }

    fn eviction(&self, node: &Node) -> (Eviction, Option<Duration>) {
        let zones = Zones::new(&self.nodes.list(), self.rates);
        let now = Instant::now();
        let mut seen = self.seen.lock();
        let dark = zones.all_dark();
        match zones::turn(seen.dark.replace(dark), dark) {
            Some(Turn::Dark) => tracing::warn!("no node is ready any more: nothing is evicted meanwhile"),
            Some(Turn::Light) => {
                tracing::info!("a node is ready again");
                // Nothing could be seen while all was dark: everyone gets their grace anew.
                seen.health.values_mut().for_each(|(health, _)| health.excuse(now));
            }
            None => {}
        }
        if taints::evicting(node).is_none() || taints::evicts(node) {
            return (if dark { Eviction::Suspended } else { Eviction::Held }, None);
        }
        seen.limits.ask(&zones, &zones::of(node), now)
    }

    /// Pods of a node that nobody hears of are not ready, whatever their last word was.
    async fn mark_pods(&self, node: &str) -> Result<(), Error> {
        for pod in self.pods.by_index(POD_NODE, node).iter().filter(|p| pods::is_ready(p)) {
            let key = pod.key();
            let mut next = (**pod).clone();
            let all = next.status.get_or_insert_default().conditions.get_or_insert_default();
            for condition in all.iter_mut().filter(|c| c.type_ == "Ready") {
                condition.status = "False".to_owned();
                condition.last_transition_time = Some(Time(self.clock.now_seconds()));
            }
            match self.client.namespaced::<Pod>(&key.namespace).update_status(&PostParams::default(), &next).await {
                Ok(_) => self.events.event(&**pod, EventType::Warning, "NodeNotReady", "Node is not ready"),
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn missing_labels(node: &Node) -> serde_json::Map<String, Value> {
    let label = |name: &str| node.metadata.labels.as_ref().and_then(|l| l.get(name));
    LABELS
        .iter()
        .filter(|(new, old)| label(new).is_some() && label(new) != label(old))
        .map(|(new, old)| ((*old).to_owned(), json!(label(new))))
        .collect()
}
