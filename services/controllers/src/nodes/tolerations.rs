//! Eviction by taints: a pod that does not tolerate a NoExecute taint of its node is deleted, at once or when its
//! toleration ends.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod, PodCondition, Taint, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use parking_lot::Mutex;
use serde_json::json;
use trireme_client::{
    Action, Change, Client, Clock, Controller, DeleteParams, EventRecorder, EventType, Object, ObjectKey, Patch,
    PatchParams, ReconcileError, Reconciler, Store,
};

use crate::cluster::{Cluster, POD_NODE};
use crate::common::taint::{NO_EXECUTE, tolerates};

const NAME: &str = "taint-eviction";

struct Evictions {
    client: Client,
    events: EventRecorder,
    pods: Store<Pod>,
    nodes: Store<Node>,
    clock: Clock,
    /// Pods whose end is set, with the time a taint without one was first seen.
    pending: Mutex<HashMap<ObjectKey, Timestamp>>,
}

/// The controller and its work.
pub(crate) fn controller(cluster: &Cluster) -> (Controller, Arc<dyn Reconciler>) {
    let (pods, nodes) = (cluster.pods(), cluster.nodes());
    let (all, known) = (pods.store(), nodes.store());
    let controller = cluster
        .controller(NAME)
        // A pod is looked at when it comes to a node that evicts; when a node begins to, its pods are.
        .watch_changes(&pods, move |change| match change {
            Change::Updated { old, new } if placed(old) == placed(new) => Vec::new(),
            Change::Updated { new: pod, .. } | Change::Added(pod) => {
                let node = placed(pod).0.and_then(|name| known.find("", name));
                let evicts = node.is_some_and(|n| !evicting(&n).is_empty());
                if evicts && !pod.is_deleting() { vec![pod.key()] } else { Vec::new() }
            }
            Change::Deleted(_) => Vec::new(),
        })
        .watch_changes(&nodes, move |change| match change {
            Change::Updated { old, new } if evicting(old) == evicting(new) => Vec::new(),
            Change::Added(node) if evicting(node).is_empty() => Vec::new(),
            change => all.by_index(POD_NODE, &change.object().key().name).iter().map(|p| p.key()).collect(),
        });
    let reconciler = Evictions {
        client: cluster.client.clone(),
        events: cluster.events("taint-eviction-controller"),
        pods: pods.store(),
        nodes: nodes.store(),
        clock: cluster.clock.clone(),
        pending: Mutex::default(),
    };
    (controller, Arc::new(reconciler))
}

fn placed(pod: &Pod) -> (Option<&str>, Option<&Vec<Toleration>>, bool) {
    let spec = pod.spec.as_ref();
    (spec.and_then(|s| s.node_name.as_deref()), spec.and_then(|s| s.tolerations.as_ref()), pod.is_deleting())
}

fn evicting(node: &Node) -> Vec<Taint> {
    let taints = node.spec.as_ref().and_then(|s| s.taints.as_ref());
    taints.into_iter().flatten().filter(|t| t.effect == NO_EXECUTE).cloned().collect()
}

/// Since when a pod is on its node: when it was bound, or made, if it was made for that node.
fn placed_at(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let scheduled = conditions.into_iter().flatten().find(|c| c.type_ == "PodScheduled" && c.status == "True");
    let bound = scheduled.and_then(|condition| condition.last_transition_time.as_ref());
    bound.or(pod.metadata.creation_timestamp.as_ref()).map(|time| time.0)
}

/// When a pod has to go: `None`: never. A toleration lasts from when both are there, the taint and the pod: one that comes
/// to a node tainted long ago has its whole time. `seen` stands in for a taint that does not say since when it is there.
fn end(tolerations: &[Toleration], taints: &[Taint], seen: Timestamp, placed: Option<Timestamp>) -> Option<Timestamp> {
    let end_of = |taint: &Taint| {
        let since = taint.time_added.as_ref().map_or(seen, |t| t.0);
        let mut matching = tolerations.iter().filter(|t| tolerates(t, taint)).peekable();
        if matching.peek().is_none() {
            return Some(since);
        }
        let shortest = matching.filter_map(|t| t.toleration_seconds).min()?;
        since.max(placed.unwrap_or(since)).checked_add(SignedDuration::from_secs(shortest.max(0))).ok()
    };
    taints.iter().filter_map(end_of).min()
}

#[async_trait::async_trait]
impl Reconciler for Evictions {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let Some(pod) = self.pods.get(key).filter(|p| !p.is_deleting()) else {
            self.pending.lock().remove(key);
            return Ok(Action::Done);
        };
        let Some(spec) = &pod.spec else { return Ok(Action::Done) };
        let node = spec.node_name.as_deref().and_then(|n| self.nodes.find("", n));
        let taints = node.map(|n| evicting(&n)).unwrap_or_default();
        let now = self.clock.now();
        let seen = *self.pending.lock().get(key).unwrap_or(&now);
        let tolerations = spec.tolerations.as_deref().unwrap_or_default();
        let Some(end) = end(tolerations, &taints, seen, placed_at(&pod)) else {
            if self.pending.lock().remove(key).is_some() {
                let text = format!("Cancelling deletion of Pod {key}");
                self.events.event(&*pod, EventType::Normal, "TaintManagerEviction", text);
            }
            return Ok(Action::Done);
        };
        if end > now {
            self.pending.lock().entry(key.clone()).or_insert(seen);
            let left = Duration::try_from(end.duration_since(now)).unwrap_or_default();
            return Ok(Action::RequeueAfter(left + Duration::from_millis(1)));
        }
        self.evict(&pod).await
    }
}

impl Evictions {
    async fn evict(&self, pod: &Pod) -> Result<Action, ReconcileError> {
        let key = pod.key();
        let api = self.client.namespaced::<Pod>(&key.namespace);
        self.events.event(pod, EventType::Normal, "TaintManagerEviction", format!("Marking for deletion Pod {key}"));
        let condition = PodCondition {
            type_: "DisruptionTarget".to_owned(),
            status: "True".to_owned(),
            reason: Some("DeletionByTaintManager".to_owned()),
            message: Some("Taint manager: deleting due to NoExecute taint".to_owned()),
            last_transition_time: Some(Time(self.clock.now_seconds())),
            observed_generation: pod.metadata.generation,
            ..PodCondition::default()
        };
        let patch = json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [condition]}});
        let gone = |error: &trireme_client::Error| error.is_not_found() || error.is_conflict();
        match api.patch_status(&key.name, &PatchParams::default(), &Patch::Strategic(patch)).await {
            Err(error) if gone(&error) => return Ok(Action::Done),
            other => drop(other?),
        }
        match api.delete(&key.name, &DeleteParams::uid(pod.uid())).await {
            Err(error) if gone(&error) => {}
            other => drop(other?),
        }
        self.pending.lock().remove(&key);
        Ok(Action::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(key: &str, since: i64) -> Taint {
        Taint {
            key: key.into(),
            effect: NO_EXECUTE.into(),
            value: None,
            time_added: Some(Time(Timestamp::from_second(since).unwrap())),
        }
    }

    fn tolerates_for(key: &str, seconds: Option<i64>) -> Toleration {
        Toleration {
            key: Some(key.into()),
            operator: Some("Exists".into()),
            effect: Some(NO_EXECUTE.into()),
            toleration_seconds: seconds,
            value: None,
        }
    }

    fn ends(tolerations: &[Toleration], taints: &[Taint]) -> Option<i64> {
        end(tolerations, taints, Timestamp::UNIX_EPOCH, None).map(Timestamp::as_second)
    }

    #[test]
    fn a_pod_that_comes_after_the_taint_has_its_whole_time() {
        let down = [taint("node.kubernetes.io/unreachable", 1000)];
        let tolerated = [tolerates_for("node.kubernetes.io/unreachable", Some(300))];
        let pod = |created: &str, bound: Option<&str>| -> Pod {
            let conditions: Vec<_> = bound
                .map(|at| json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": at}))
                .into_iter()
                .collect();
            let pod = json!({"metadata": {"creationTimestamp": created}, "status": {"conditions": conditions}});
            serde_json::from_value(pod).unwrap()
        };
        let end_of = |pod: &Pod| {
            let end = end(&tolerated, &down, Timestamp::UNIX_EPOCH, placed_at(pod));
            end.map(Timestamp::as_second)
        };
        // Bound an hour after the taint (which came at 00:16:40), whenever it was made.
        assert_eq!(end_of(&pod("1970-01-01T00:00:00Z", Some("1970-01-01T01:16:40Z"))), Some(4600 + 300));
        // Made for the node.
        assert_eq!(end_of(&pod("1970-01-01T01:16:40Z", None)), Some(4600 + 300));
        // It was there before.
        assert_eq!(end_of(&pod("1970-01-01T00:00:00Z", Some("1970-01-01T00:00:01Z"))), Some(1300));
        // What does not tolerate goes at once, however new it is.
        let placed = placed_at(&pod("1970-01-01T01:16:40Z", None));
        assert_eq!(end(&[], &down, Timestamp::UNIX_EPOCH, placed).map(Timestamp::as_second), Some(1000));
    }

    #[test]
    fn pods_go_when_their_toleration_ends() {
        let down = [taint("node.kubernetes.io/unreachable", 1000)];
        assert_eq!(ends(&[], &[]), None);
        assert_eq!(ends(&[], &down), Some(1000));
        assert_eq!(ends(&[tolerates_for("node.kubernetes.io/unreachable", Some(300))], &down), Some(1300));
        assert_eq!(ends(&[tolerates_for("node.kubernetes.io/unreachable", None)], &down), None);
        assert_eq!(ends(&[tolerates_for("other", Some(300))], &down), Some(1000));
        let both = [taint("node.kubernetes.io/unreachable", 1000), taint("bad", 1100)];
        assert_eq!(ends(&[tolerates_for("node.kubernetes.io/unreachable", Some(300))], &both), Some(1100));
    }

    #[test]
    fn an_empty_key_that_exists_tolerates_everything() {
        let all = Toleration { operator: Some("Exists".into()), ..Toleration::default() };
        assert_eq!(ends(&[all], &[taint("x", 1)]), None);
        let equal = Toleration { key: Some("x".into()), value: Some("v".into()), ..Toleration::default() };
        assert_eq!(ends(&[equal], &[taint("x", 1)]), Some(1));
        // As the scheduler has it: without a key the value alone decides.
        let any_key = Toleration { operator: Some("Equal".into()), ..Toleration::default() };
        assert_eq!(ends(&[any_key], &[taint("x", 1)]), None);
    }
}
