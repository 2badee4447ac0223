//! Pods that nobody looks after any more: of nodes that are gone, deleted before they were placed, and ended ones beyond a
//! limit.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;
use trireme_client::{
    Action, Client, Clock, Controller, DeleteParams, Error, Object, ObjectKey, Patch, PatchParams, ReconcileError,
    Reconciler, Store,
};

use crate::cluster::Cluster;
use crate::common::pods;

const NAME: &str = "pod-garbage-collector";
const PERIOD: Duration = Duration::from_secs(20);
/// A node that is not there may have been renamed or not seen yet: this long is waited.
const QUARANTINE: Duration = Duration::from_secs(40);

/// What a pod is deleted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    Ended,
    NodeGone,
    NeverPlaced,
}

struct PodGc {
    client: Client,
    pods: Store<Pod>,
    nodes: Store<Node>,
    clock: Clock,
    threshold: i64,
    /// Nodes that pods name and that are not there, since when.
    missing: Mutex<HashMap<String, Instant>>,
}

/// The controller and its work. It has one key and looks at all pods each time.
pub(crate) fn controller(cluster: &Cluster) -> (Controller, Arc<dyn Reconciler>) {
    let (pods, nodes) = (cluster.pods(), cluster.nodes());
    let controller = cluster.controller(NAME).quiet().reads(&pods).reads(&nodes).always(ObjectKey::cluster("pods"));
    let reconciler = PodGc {
        client: cluster.client.clone(),
        pods: pods.store(),
        nodes: nodes.store(),
        clock: cluster.clock.clone(),
        threshold: cluster.config.terminated_pod_gc_threshold,
        missing: Mutex::default(),
    };
    (controller, Arc::new(reconciler))
}

fn node_of(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|s| s.node_name.as_deref()).unwrap_or_default()
}

/// The pods to delete, `gone` being the nodes that are known to be gone.
fn plan(all: &[Arc<Pod>], gone: &BTreeSet<String>, threshold: i64) -> Vec<(Arc<Pod>, Why)> {
    let mut plan = BTreeMap::new();
    if let Ok(threshold @ 1..) = usize::try_from(threshold) {
        let mut ended: Vec<&Arc<Pod>> = all.iter().filter(|p| pods::is_finished(p)).collect();
        ended.sort_by_key(|p| (p.metadata.creation_timestamp.as_ref().map(|t| t.0), p.key()));
        for pod in ended.iter().take(ended.len().saturating_sub(threshold)) {
            plan.insert(pod.key(), ((*pod).clone(), Why::Ended));
        }
    }
    for pod in all {
        let node = node_of(pod);
        if gone.contains(node) {
            plan.insert(pod.key(), (pod.clone(), Why::NodeGone));
        } else if node.is_empty() && pod.is_deleting() {
            plan.insert(pod.key(), (pod.clone(), Why::NeverPlaced));
        }
    }
    plan.into_values().collect()
}

#[async_trait::async_trait]
impl Reconciler for PodGc {
    async fn reconcile(&self, _: &ObjectKey) -> Result<Action, ReconcileError> {
        let all = self.pods.list();
        let gone = self.gone(&all).await?;
        let mut failed = None;
        for (pod, why) in plan(&all, &gone, self.threshold) {
            if let Err(error) = self.collect(&pod, why).await {
                tracing::warn!(pod = %pod.key(), ?why, %error, "cannot collect");
                failed = Some(error);
            }
        }
        match failed.filter(Error::is_claim_lost) {
            Some(error) => Err(error.into()),
            None => Ok(Action::RequeueAfter(PERIOD)),
        }
    }
}

impl PodGc {
    /// Nodes that pods name, that are missing for long enough, and that the API server does not have either.
    async fn gone(&self, all: &[Arc<Pod>]) -> Result<BTreeSet<String>, Error> {
        let named: BTreeSet<&str> = all.iter().map(|p| node_of(p)).filter(|n| !n.is_empty()).collect();
        let absent: Vec<&str> = named.into_iter().filter(|n| self.nodes.find("", n).is_none()).collect();
        let now = Instant::now();
        let due: Vec<String> = {
            let mut missing = self.missing.lock();
            missing.retain(|name, _| absent.contains(&name.as_str()));
            for name in absent {
                missing.entry(name.to_owned()).or_insert(now);
            }
            let due = missing.iter().filter(|(_, since)| now.duration_since(**since) >= QUARANTINE);
            due.map(|(name, _)| name.clone()).collect()
        };
        let mut gone = BTreeSet::new();
        for name in due {
            if self.client.api::<Node>().get_opt(&name).await?.is_none() {
                gone.insert(name);
            }
        }
        Ok(gone)
    }

    async fn collect(&self, pod: &Pod, why: Why) -> Result<(), Error> {
        let key = pod.key();
        let api = self.client.namespaced::<Pod>(&key.namespace);
        let gone = |error: &Error| error.is_not_found() || error.is_conflict();
        if !pods::is_finished(pod) {
            // Nobody else will ever say that it ended.
            let mut status = json!({"phase": "Failed"});
            if why == Why::NodeGone {
                status["conditions"] = json!([PodCondition {
                    type_: "DisruptionTarget".to_owned(),
                    status: "True".to_owned(),
                    reason: Some("DeletionByPodGC".to_owned()),
                    message: Some("PodGC: node no longer exists".to_owned()),
                    last_transition_time: Some(Time(self.clock.now_seconds())),
                    observed_generation: pod.metadata.generation,
                    ..PodCondition::default()
                }]);
            }
            let patch = Patch::Strategic(json!({"metadata": {"uid": pod.uid()}, "status": status}));
            match api.patch_status(&key.name, &PatchParams::default(), &patch).await {
                Err(error) if gone(&error) => return Ok(()),
                other => drop(other?),
            }
        }
        match api.delete(&key.name, &DeleteParams::uid(pod.uid()).grace(0)).await {
            Err(error) if gone(&error) => Ok(()),
            other => other.map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, node: &str, phase: &str, deleting: bool) -> Arc<Pod> {
        let deleted = deleting.then_some("2026-01-01T00:00:00Z");
        Arc::new(
            serde_json::from_value(json!({"metadata": {"name": name, "deletionTimestamp": deleted},
                "spec": {"nodeName": node, "containers": []}, "status": {"phase": phase}}))
            .unwrap(),
        )
    }

    #[test]
    fn what_nobody_looks_after_goes() {
        let all = [
            pod("a", "n1", "Running", false),
            pod("b", "n9", "Running", false),
            pod("c", "", "Pending", true),
            pod("d", "", "Pending", false),
            pod("e", "n1", "Running", true),
        ];
        let gone = BTreeSet::from(["n9".to_owned()]);
        let found: Vec<_> = plan(&all, &gone, 0).into_iter().map(|(p, why)| (p.key().name, why)).collect();
        assert_eq!(found, [("b".to_owned(), Why::NodeGone), ("c".to_owned(), Why::NeverPlaced)]);
    }

    #[test]
    fn ended_pods_are_kept_up_to_a_limit() {
        let all: Vec<_> = (0..5).map(|i| pod(&format!("p{i}"), "n1", "Succeeded", false)).collect();
        assert_eq!(plan(&all, &BTreeSet::new(), 3).len(), 2);
        assert_eq!(plan(&all, &BTreeSet::new(), -1).len(), 0);
    }
}
