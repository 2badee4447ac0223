//! Which pods go first when there are too many.

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use trireme_client::Object;

use crate::common::pods;

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The pods in the order in which they go. `related` are the pods of all sets of the same owner: where many of them
/// share a node, those go first.
pub(crate) fn order(mut candidates: Vec<Arc<Pod>>, related: &[Arc<Pod>], now: Timestamp) -> Vec<Arc<Pod>> {
    let mut on_node: HashMap<String, usize> = HashMap::new();
    for pod in related.iter().filter(|p| pods::is_active(p)) {
        *on_node.entry(node(pod).to_owned()).or_default() += 1;
    }
    candidates.sort_by(|a, b| compare(a, b, &on_node, now));
    candidates
}

fn node(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|s| s.node_name.as_deref()).unwrap_or_default()
}

fn compare(a: &Pod, b: &Pod, on_node: &HashMap<String, usize>, now: Timestamp) -> Ordering {
    let colocated = |pod: &Pod| Reverse(on_node.get(node(pod)).copied().unwrap_or(0));
    // Not assigned, not started, not ready; cheap; crowded.
    (!node(a).is_empty())
        .cmp(&!node(b).is_empty())
        .then_with(|| started(a).cmp(&started(b)))
        .then_with(|| pods::is_ready(a).cmp(&pods::is_ready(b)))
        .then_with(|| cost(a).cmp(&cost(b)))
        .then_with(|| colocated(a).cmp(&colocated(b)))
        // Ready for less time, restarted more often, younger.
        .then_with(|| match (pods::ready_since(a), pods::ready_since(b)) {
            (Some(x), Some(y)) if x != y => by_age(a, b, x, y, now),
            _ => Ordering::Equal,
        })
        .then_with(|| restarts(b).cmp(&restarts(a)))
        .then_with(|| match (created(a), created(b)) {
            (Some(x), Some(y)) if x != y => by_age(a, b, x, y, now),
            (x, y) => x.is_some().cmp(&y.is_some()),
        })
}

/// Ages count by powers of two; within one the uid decides, so that it is not always the youngest.
fn by_age(a: &Pod, b: &Pod, x: Timestamp, y: Timestamp, now: Timestamp) -> Ordering {
    let rank = |at: Timestamp| {
        let age = now.as_nanosecond() - at.as_nanosecond();
        if age > 0 { i64::from(age.ilog2()) } else { -1 }
    };
    rank(x).cmp(&rank(y)).then_with(|| a.uid().cmp(b.uid()))
}

fn started(pod: &Pod) -> u8 {
    match pods::phase(pod) {
        "Unknown" => 1,
        "Running" => 2,
        _ => 0,
    }
}

fn cost(pod: &Pod) -> i32 {
    let annotation = pod.metadata.annotations.as_ref().and_then(|a| a.get(DELETION_COST));
    annotation.and_then(|c| c.parse().ok()).unwrap_or(0)
}

/// Restarts of the containers, and after them of the side cars.
fn restarts(pod: &Pod) -> (i32, i32) {
    let Some(status) = &pod.status else { return (0, 0) };
    let most = |statuses: &Option<Vec<k8s_openapi::api::core::v1::ContainerStatus>>| {
        statuses.iter().flatten().map(|s| s.restart_count).max().unwrap_or(0)
    };
    (most(&status.container_statuses), most(&status.init_container_statuses))
}

fn created(pod: &Pod) -> Option<Timestamp> {
    pod.metadata.creation_timestamp.as_ref().map(|t| t.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn now() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    fn pod(name: &str, node: &str, phase: &str, ready_since: Option<&str>, more: Value) -> Arc<Pod> {
        let conditions = ready_since.map(|t| json!([{"type": "Ready", "status": "True", "lastTransitionTime": t}]));
        let mut pod = json!({
            "metadata": {"name": name, "uid": name, "creationTimestamp": "2026-01-01T11:00:00Z"},
            "spec": {"nodeName": node, "containers": []},
            "status": {"phase": phase, "conditions": conditions},
        });
        if let Some(annotations) = more.get("annotations") {
            pod["metadata"]["annotations"] = annotations.clone();
        }
        if let Some(created) = more.get("created") {
            pod["metadata"]["creationTimestamp"] = created.clone();
        }
        if let Some(restarts) = more.get("restarts") {
            pod["status"]["containerStatuses"] =
                json!([{"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": restarts}]);
        }
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn first(a: Arc<Pod>, b: Arc<Pod>) -> String {
        let forward = order(vec![a.clone(), b.clone()], &[], now());
        let backward = order(vec![b, a], &[], now());
        assert_eq!(forward[0].metadata.name, backward[0].metadata.name);
        forward[0].metadata.name.clone().unwrap()
    }

    const READY: Option<&str> = Some("2026-01-01T11:30:00Z");

    #[test]
    fn what_serves_least_goes_first() {
        let good = || pod("good", "n", "Running", READY, Value::Null);
        assert_eq!(first(good(), pod("unassigned", "", "Pending", None, Value::Null)), "unassigned");
        assert_eq!(first(good(), pod("pending", "n", "Pending", None, Value::Null)), "pending");
        assert_eq!(first(good(), pod("unready", "n", "Running", None, Value::Null)), "unready");
        let cheap = json!({"annotations": {DELETION_COST: "-5"}});
        assert_eq!(first(good(), pod("cheap", "n", "Running", READY, cheap)), "cheap");
        assert_eq!(first(good(), pod("fresh", "n", "Running", Some("2026-01-01T11:59:00Z"), Value::Null)), "fresh");
        assert_eq!(first(good(), pod("shaky", "n", "Running", READY, json!({"restarts": 4}))), "shaky");
        let young = json!({"created": "2026-01-01T11:58:00Z"});
        assert_eq!(first(good(), pod("young", "n", "Running", READY, young)), "young");
    }

    #[test]
    fn crowded_nodes_lose_first() {
        let pods = ["a", "b"].map(|n| pod(n, n, "Running", READY, Value::Null));
        let mut related = pods.to_vec();
        related.push(pod("other", "b", "Running", READY, Value::Null));
        assert_eq!(order(pods.to_vec(), &related, now())[0].metadata.name.as_deref(), Some("b"));
    }
}
