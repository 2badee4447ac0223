//! What controllers ask about pods.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use trireme_client::{Object, ObjectKey};

use super::conditions;

/// The pod's phase.
pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default()
}

/// The pod has ended for good.
pub(crate) fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// The pod counts: it has not ended and nobody deletes it.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && !pod.is_deleting()
}

/// The pod is being deleted and has not ended.
pub(crate) fn is_terminating(pod: &Pod) -> bool {
    !is_finished(pod) && pod.is_deleting()
}

/// A claim that a volume of a pod names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claimed {
    /// Where it is.
    pub(crate) key: ObjectKey,
    /// It is made for this pod alone, which controls it.
    pub(crate) ephemeral: bool,
}

/// The claims that the pod's volumes name.
pub(crate) fn claims(pod: &Pod) -> impl Iterator<Item = Claimed> + '_ {
    let at = pod.key();
    pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()).filter_map(move |volume| {
        let (name, ephemeral) = match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(source), _) => (source.claim_name.clone(), false),
            (None, Some(_)) => (format!("{}-{}", at.name, volume.name), true),
            (None, None) => return None,
        };
        Some(Claimed { key: ObjectKey::new(at.namespace.clone(), name), ephemeral })
    })
}

/// The pod is ready.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    conditions::of_pod(pod, "Ready").is_some_and(|c| c.status == "True")
}

/// Since when the pod is ready.
pub(crate) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let ready = conditions::of_pod(pod, "Ready").filter(|c| c.status == "True")?;
    ready.last_transition_time.as_ref().map(|t| t.0)
}

/// The pod has been ready for so many seconds.
pub(crate) fn is_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    if !is_ready(pod) {
        return false;
    }
    if min_ready_seconds == 0 {
        return true;
    }
    let Some(since) = ready_since(pod) else { return false };
    now.as_nanosecond() - since.as_nanosecond() >= i128::from(min_ready_seconds) * 1_000_000_000
}

/// When the next of the ready pods becomes available.
pub(crate) fn next_available<'a>(
    pods: impl IntoIterator<Item = &'a Pod>,
    min_ready_seconds: i32,
    now: Timestamp,
) -> Option<Duration> {
    if min_ready_seconds <= 0 {
        return None;
    }
    let wait = jiff::SignedDuration::from_secs(i64::from(min_ready_seconds));
    pods.into_iter()
        .filter(|pod| !is_available(pod, min_ready_seconds, now))
        .filter_map(|pod| ready_since(pod)?.checked_add(wait).ok())
        .map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default())
        .min()
}
