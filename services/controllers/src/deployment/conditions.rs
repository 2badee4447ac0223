//! The status of a Deployment.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::scale::{max_unavailable, wanted};
use super::sets::size;
use crate::common::conditions::count;

const PROGRESSING: &str = "Progressing";
const AVAILABLE: &str = "Available";
const REPLICA_FAILURE: &str = "ReplicaFailure";
pub(super) const NEW_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";

pub(super) fn deadline(deployment: &Deployment) -> Option<i64> {
    deployment.spec.progress_deadline_seconds.filter(|s| *s != i32::MAX).map(i64::from)
}

fn find<'a>(status: &'a DeploymentStatus, kind: &str) -> Option<&'a DeploymentCondition> {
    status.conditions.as_ref()?.iter().find(|c| c.type_.as_deref() == Some(kind))
}

fn condition(kind: &str, status: &str, reason: &str, message: String, now: Timestamp) -> DeploymentCondition {
    DeploymentCondition {
        type_: Some(kind.to_owned()),
        status: Some(status.to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_update_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    }
}

/// Sets a condition unless it is there with the same status and reason; the time of its last change is kept where the
/// status is the same.
fn set(status: &mut DeploymentStatus, mut condition: DeploymentCondition) {
    let kind = condition.type_.clone().unwrap_or_default();
    if let Some(old) = find(status, &kind) {
        if old.status == condition.status && old.reason == condition.reason {
            return;
        }
        if old.status == condition.status {
            condition.last_transition_time = old.last_transition_time.clone();
        }
    }
    remove(status, &kind);
    status.conditions.get_or_insert_default().push(condition);
}

fn remove(status: &mut DeploymentStatus, kind: &str) {
    if let Some(conditions) = &mut status.conditions {
        conditions.retain(|c| c.type_.as_deref() != Some(kind));
    }
}

/// Says in the condition that the Deployment was paused or goes on, so that its deadline starts anew.
pub(super) fn note_pause(deployment: &mut Deployment, now: Timestamp) {
    if deadline(deployment).is_none() {
        return;
    }
    let paused = deployment.spec.paused.unwrap_or(false);
    let status = deployment.status.get_or_insert_default();
    let reason = find(status, PROGRESSING).and_then(|c| c.reason.as_deref());
    if reason == Some(TIMED_OUT) {
        return;
    }
    let said = reason == Some(PAUSED);
    if paused && !said {
        set(status, condition(PROGRESSING, "Unknown", PAUSED, "Deployment is paused".into(), now));
    } else if !paused && said {
        set(status, condition(PROGRESSING, "Unknown", "DeploymentResumed", "Deployment is resumed".into(), now));
    }
}

/// Says that the new set is being made.
pub(super) fn note_created(deployment: &mut Deployment, set_name: &str, now: Timestamp) {
    if deadline(deployment).is_some() {
        let text = format!("Created new replica set {set_name:?}");
        set(
            deployment.status.get_or_insert_default(),
            condition(PROGRESSING, "True", "NewReplicaSetCreated", text, now),
        );
    }
}

/// Says that the new set was there already, if nothing was said yet.
pub(super) fn note_found(deployment: &mut Deployment, set_name: &str, now: Timestamp) {
    let status = deployment.status.get_or_insert_default();
    if find(status, PROGRESSING).is_none() && deadline(deployment).is_some() {
        let text = format!("Found new replica set {set_name:?}");
        set(deployment.status.get_or_insert_default(), condition(PROGRESSING, "True", "FoundNewReplicaSet", text, now));
    }
}

/// Says that the new set was refused; false: it was said before.
pub(super) fn create_failed(deployment: &mut Deployment, text: &str, now: Timestamp) -> bool {
    if deadline(deployment).is_none() {
        return false;
    }
    let status = deployment.status.get_or_insert_default();
    let before = status.clone();
    set(status, condition(PROGRESSING, "False", "ReplicaSetCreateError", text.to_owned(), now));
    *status != before
}

fn sum<'a>(sets: impl IntoIterator<Item = &'a ReplicaSet>, what: impl Fn(&ReplicaSet) -> i32) -> i32 {
    sets.into_iter().map(what).sum()
}

fn replicas(set: &ReplicaSet) -> i32 {
    set.status.as_ref().map_or(0, |s| s.replicas)
}

pub(super) fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|s| s.available_replicas).unwrap_or(0)
}

fn ready(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|s| s.ready_replicas).unwrap_or(0)
}

/// The sum over all sets; unknown as long as one that was looked at does not say.
fn terminating<'a>(sets: impl IntoIterator<Item = &'a ReplicaSet>) -> Option<i32> {
    let mut total = 0;
    for set in sets {
        let Some(status) = &set.status else { continue };
        match status.terminating_replicas {
            Some(count) => total += count,
            None if status.observed_generation.unwrap_or(0) == 0 => {}
            None => return None,
        }
    }
    Some(total)
}

/// The counts and the Available condition; the other conditions are kept.
pub(super) fn counted(
    deployment: &Deployment,
    all: &[&ReplicaSet],
    new: Option<&ReplicaSet>,
    now: Timestamp,
) -> DeploymentStatus {
    let each = || all.iter().copied();
    let available = sum(each(), available);
    let old = deployment.status.clone().unwrap_or_default();
    let mut status = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: count(sum(each(), replicas)),
        updated_replicas: count(new.map_or(0, replicas)),
        ready_replicas: count(sum(each(), ready)),
        available_replicas: count(available),
        unavailable_replicas: count((sum(each(), size) - available).max(0)),
        terminating_replicas: terminating(each()),
        collision_count: old.collision_count,
        conditions: old.conditions,
    };
    let enough = available >= wanted(deployment) - max_unavailable(deployment);
    let (is, reason, text) = if enough {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    set(&mut status, condition(AVAILABLE, is, reason, text.to_owned(), now));
    status
}

/// The rollout is done by this status.
pub(super) fn complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let wanted = wanted(deployment);
    let is = |count: Option<i32>| count.unwrap_or(0) == wanted;
    is(status.updated_replicas)
        && is(status.replicas)
        && is(status.available_replicas)
        && status.observed_generation >= deployment.metadata.generation
}

fn progressed(old: &DeploymentStatus, new: &DeploymentStatus) -> bool {
    let n = |count: Option<i32>| count.unwrap_or(0);
    let outdated = |status: &DeploymentStatus| n(status.replicas) - n(status.updated_replicas);
    n(new.updated_replicas) > n(old.updated_replicas)
        || outdated(new) < outdated(old)
        || n(new.ready_replicas) > n(old.ready_replicas)
        || n(new.available_replicas) > n(old.available_replicas)
}

/// The whole status in a rollout: counts, Available, Progressing against the deadline, ReplicaFailure of the sets.
pub(super) fn of_rollout(
    deployment: &Deployment,
    all: &[&ReplicaSet],
    new: Option<&ReplicaSet>,
    now: Timestamp,
) -> DeploymentStatus {
    let old = deployment.status.clone().unwrap_or_default();
    let mut status = counted(deployment, all, new, now);
    let n = |count: Option<i32>| count.unwrap_or(0);
    let current = find(&old, PROGRESSING).cloned();
    let reason = current.as_ref().and_then(|c| c.reason.as_deref());
    let done = n(status.replicas) == n(status.updated_replicas) && reason == Some(NEW_SET_AVAILABLE);
    let name = new.and_then(|s| s.metadata.name.clone());
    let of = match &name {
        Some(name) => format!("ReplicaSet {name:?}"),
        None => format!("Deployment {:?}", deployment.metadata.name.as_deref().unwrap_or_default()),
    };
    match deadline(deployment) {
        None => remove(&mut status, PROGRESSING),
        Some(_) if done => {}
        Some(seconds) => {
            if complete(deployment, &status) {
                let text = format!("{of} has successfully progressed.");
                set(&mut status, condition(PROGRESSING, "True", NEW_SET_AVAILABLE, text, now));
            } else if progressed(&old, &status) {
                let mut next =
                    condition(PROGRESSING, "True", "ReplicaSetUpdated", format!("{of} is progressing."), now);
                if let Some(current) = current.filter(|c| c.status.as_deref() == Some("True")) {
                    next.last_transition_time = current.last_transition_time;
                }
                // Also with the same reason: the deadline counts from here.
                remove(&mut status, PROGRESSING);
                set(&mut status, next);
            } else if timed_out(&status, seconds, now) {
                let text = format!("{of} has timed out progressing.");
                set(&mut status, condition(PROGRESSING, "False", TIMED_OUT, text, now));
            }
        }
    }
    let failing = |set: &ReplicaSet| {
        let conditions = set.status.as_ref().and_then(|s| s.conditions.as_ref());
        conditions.and_then(|c| c.iter().find(|c| c.type_.as_deref() == Some(REPLICA_FAILURE))).cloned()
    };
    match new.and_then(failing).or_else(|| all.iter().find_map(|s| failing(s))) {
        Some(failure) => set(
            &mut status,
            DeploymentCondition {
                type_: failure.type_,
                status: failure.status,
                reason: failure.reason,
                message: failure.message,
                last_update_time: failure.last_transition_time.clone(),
                last_transition_time: failure.last_transition_time,
            },
        ),
        None => remove(&mut status, REPLICA_FAILURE),
    }
    status
}

fn timed_out(status: &DeploymentStatus, seconds: i64, now: Timestamp) -> bool {
    let Some(condition) = find(status, PROGRESSING) else { return false };
    match condition.reason.as_deref() {
        Some(NEW_SET_AVAILABLE) => false,
        Some(TIMED_OUT) => true,
        _ => due(condition, seconds).is_some_and(|due| due < now),
    }
}

fn due(condition: &DeploymentCondition, seconds: i64) -> Option<Timestamp> {
    condition.last_update_time.as_ref()?.0.checked_add(SignedDuration::from_secs(seconds)).ok()
}

/// When to look whether the deadline has passed.
pub(super) fn next_look(deployment: &Deployment, status: &DeploymentStatus, now: Timestamp) -> Option<Duration> {
    let seconds = deadline(deployment)?;
    let condition = find(status, PROGRESSING)?;
    if complete(deployment, status) || condition.reason.as_deref() == Some(TIMED_OUT) {
        return None;
    }
    let left = due(condition, seconds)?.duration_since(now);
    Some(Duration::try_from(left).unwrap_or_default() + Duration::from_secs(1))
}
