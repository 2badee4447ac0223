//! What a ReplicaSet needs: more pods, fewer pods, another status. Pure.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use trireme_client::Object;
use trireme_machinery::labels::Selector;

use super::rank;
use crate::common::{conditions::count, pods};

/// At most so many pods are made or deleted in a round.
const BURST: usize = 500;
const REPLICA_FAILURE: &str = "ReplicaFailure";

/// What is to be done about the number of pods.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// So many pods are missing.
    pub(crate) create: usize,
    /// These are too many.
    pub(crate) delete: Vec<Arc<Pod>>,
}

/// Decides how many pods to make or which to delete. `active` are the set's own; `related` those of every set with the
/// same owner.
pub(crate) fn plan(set: &ReplicaSet, active: &[Arc<Pod>], related: &[Arc<Pod>], now: Timestamp) -> Plan {
    if set.is_deleting() {
        return Plan::default();
    }
    let wanted = wanted(set);
    let surplus = active.len().saturating_sub(wanted).min(BURST);
    let delete = if surplus == 0 {
        Vec::new()
    } else {
        let mut order = rank::order(active.to_vec(), related, now);
        order.truncate(surplus);
        order
    };
    Plan { create: wanted.saturating_sub(active.len()).min(BURST), delete }
}

fn wanted(set: &ReplicaSet) -> usize {
    let replicas = set.spec.replicas.unwrap_or(1);
    usize::try_from(replicas).unwrap_or(0)
}

fn min_ready_seconds(set: &ReplicaSet) -> i32 {
    set.spec.min_ready_seconds.unwrap_or(0)
}

/// The status that the set should have; `None` when it has it. `failure` says why pods could not be made or deleted.
pub(crate) fn status(
    set: &ReplicaSet,
    active: &[Arc<Pod>],
    terminating: usize,
    failure: Option<&str>,
    now: Timestamp,
) -> Option<ReplicaSetStatus> {
    let old = set.status.clone().unwrap_or_default();
    let template = set.spec.template.as_ref().and_then(|t| t.metadata.as_ref()?.labels.as_ref());
    let labels = Selector::from_map(template.into_iter().flatten());
    let many =
        |what: &dyn Fn(&Pod) -> bool| i32::try_from(active.iter().filter(|p| what(p)).count()).unwrap_or(i32::MAX);
    let min_ready = min_ready_seconds(set);
    let status = ReplicaSetStatus {
        replicas: many(&|_| true),
        fully_labeled_replicas: count(many(&|p| labels.matches(&p.metadata.labels))),
        ready_replicas: count(many(&pods::is_ready)),
        available_replicas: count(many(&|p| pods::is_available(p, min_ready, now))),
        terminating_replicas: Some(i32::try_from(terminating).unwrap_or(i32::MAX)),
        observed_generation: set.metadata.generation,
        conditions: conditions(old.conditions.as_deref().unwrap_or_default(), failure, active.len() < wanted(set), now),
    };
    let comparable = |s: &ReplicaSetStatus| {
        let counts = [s.fully_labeled_replicas, s.ready_replicas, s.available_replicas].map(Option::unwrap_or_default);
        (s.replicas, counts, s.terminating_replicas, s.observed_generation, s.conditions.clone().unwrap_or_default())
    };
    (comparable(&old) != comparable(&status)).then_some(status)
}

fn conditions(
    old: &[ReplicaSetCondition],
    failure: Option<&str>,
    too_few: bool,
    now: Timestamp,
) -> Option<Vec<ReplicaSetCondition>> {
    let mut conditions = old.to_vec();
    let failed = conditions.iter().any(|c| c.type_.as_deref() == Some(REPLICA_FAILURE));
    match failure {
        Some(message) if !failed => conditions.push(ReplicaSetCondition {
            type_: Some(REPLICA_FAILURE.to_owned()),
            status: Some("True".to_owned()),
            reason: Some(if too_few { "FailedCreate" } else { "FailedDelete" }.to_owned()),
            message: Some(message.to_owned()),
            last_transition_time: Some(Time(now)),
        }),
        Some(_) => {}
        None => conditions.retain(|c| c.type_.as_deref() != Some(REPLICA_FAILURE)),
    }
    Some(conditions).filter(|c| !c.is_empty())
}

/// When a pod that is ready but not yet available will be.
pub(crate) fn next_look(set: &ReplicaSet, active: &[Arc<Pod>], now: Timestamp) -> Option<Duration> {
    pods::next_available(active.iter().map(Arc::as_ref), min_ready_seconds(set), now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn now() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    fn set(replicas: i32, min_ready: i32) -> ReplicaSet {
        serde_json::from_value(json!({
            "metadata": {"name": "web-1", "uid": "u", "generation": 2},
            "spec": {"replicas": replicas, "minReadySeconds": min_ready, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}},
        }))
        .unwrap()
    }

    fn pod(name: &str, ready_since: Option<&str>) -> Arc<Pod> {
        let conditions = ready_since.map(|t| json!([{"type": "Ready", "status": "True", "lastTransitionTime": t}]));
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": name, "uid": name, "labels": {"app": "web"}},
                "spec": {"nodeName": "n", "containers": []},
                "status": {"phase": "Running", "conditions": conditions},
            }))
            .unwrap(),
        )
    }

    #[test]
    fn missing_pods_are_made_and_surplus_ones_deleted() {
        assert_eq!(plan(&set(3, 0), &[], &[], now()).create, 3);
        assert_eq!(plan(&set(2000, 0), &[], &[], now()).create, BURST);
        let pods = [pod("ready", Some("2026-01-01T11:00:00Z")), pod("unready", None)];
        let plan = plan(&set(1, 0), &pods, &pods, now());
        assert_eq!((plan.create, plan.delete.len()), (0, 1));
        assert_eq!(plan.delete[0].uid(), "unready");
    }

    #[test]
    fn the_status_counts() {
        let pods =
            [pod("old", Some("2026-01-01T11:00:00Z")), pod("new", Some("2026-01-01T11:59:55Z")), pod("unready", None)];
        let mut set = set(3, 10);
        let status = status(&set, &pods, 1, None, now()).unwrap();
        assert_eq!(status.replicas, 3);
        assert_eq!(status.fully_labeled_replicas, Some(3));
        assert_eq!(status.ready_replicas, Some(2));
        assert_eq!(status.available_replicas, Some(1));
        assert_eq!(status.terminating_replicas, Some(1));
        assert_eq!(status.observed_generation, Some(2));
        assert_eq!(next_look(&set, &pods, now()), Some(Duration::from_secs(5)));
        set.status = Some(status);
        assert_eq!(super::status(&set, &pods, 1, None, now()), None);
    }

    #[test]
    fn a_failure_is_a_condition_until_it_is_over() {
        let mut set = set(1, 0);
        let failed = status(&set, &[], 0, Some("pods \"x\" is forbidden"), now()).unwrap();
        let condition = &failed.conditions.as_ref().unwrap()[0];
        assert_eq!(
            (condition.type_.as_deref(), condition.reason.as_deref()),
            (Some("ReplicaFailure"), Some("FailedCreate"))
        );
        set.status = Some(failed);
        let healed = status(&set, &[], 0, None, now()).unwrap();
        assert_eq!(healed.conditions, None);
    }
}
