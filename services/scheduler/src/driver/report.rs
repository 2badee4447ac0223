//! Telling that a pod found no node: its `PodScheduled` condition, an event; and making the pods go that have to.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use serde_json::{Value, json};
use tracing::Instrument as _;
use trireme_client::events::reference;
use trireme_client::{DeleteParams, Error, EventType, Patch, PatchParams, context};
use trireme_machinery::time;

use super::{Scheduler, SharedPod};
use crate::preemption::Victims;

/// An event says no more.
const LONGEST_EVENT: usize = 1024;

/// Why a pod has no node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// No node would do.
    Unschedulable,
    /// Something went wrong.
    SchedulerError,
}

impl Reason {
    fn as_str(self) -> &'static str {
        match self {
            Self::Unschedulable => "Unschedulable",
            Self::SchedulerError => "SchedulerError",
        }
    }
}

impl Scheduler {
    /// Tells about a failed attempt, and makes victims go. Does not wait for the writes.
    pub(super) fn tell_failure(&self, pod: &SharedPod, reason: Reason, message: String, victims: Option<Victims>) {
        let what = ("FailedScheduling", "Scheduling");
        self.recorder.event(pod.pod.as_ref(), None, EventType::Warning, what, shortened(&message));
        let nominated = victims.as_ref().map(|victims| victims.node.clone());
        let patch = status_patch(pod, reason, &message, nominated.as_deref(), self.parts.clock.now());
        if patch.is_none() && victims.is_none() {
            return;
        }
        let Some(fence) = self.fence(pod) else { return };
        let (client, recorder, pod) = (self.parts.client.clone(), self.recorder.clone(), pod.clone());
        let name = self.parts.scheduler_name.clone();
        let now = self.parts.clock.now();
        let writes = async move {
            if let Some(patch) = patch {
                let pods = client.namespaced::<Pod>(pod.namespace());
                let told = pods.patch_status(pod.name(), &PatchParams::default(), &Patch::Strategic(patch)).await;
                complain(&pod, "its condition was not written", told.map(|_| ()));
            }
            for victim in victims.into_iter().flat_map(|victims| victims.pods) {
                if victim.is_terminating() {
                    continue;
                }
                let pods = client.namespaced::<Pod>(victim.namespace());
                let disruption = disruption_patch(&victim, &name, now);
                let told =
                    pods.patch_status(victim.name(), &PatchParams::default(), &Patch::Strategic(disruption)).await;
                complain(&victim, "its disruption was not written", told.map(|_| ()));
                let deleted = pods.delete(victim.name(), &DeleteParams::uid(victim.uid())).await;
                if deleted.is_ok() {
                    metrics::counter!("scheduler_preemption_victims_total").increment(1);
                    let text = format!("Preempted by pod {} on node {}", pod.uid(), victim.node_name());
                    let what = ("Preempted", "Preempting");
                    let preemptor = Some(reference(pod.pod.as_ref()));
                    recorder.event(victim.pod.as_ref(), preemptor, EventType::Normal, what, text);
                }
                complain(&victim, "it was not made to go", deleted.map(|_| ()));
            }
        };
        let span = tracing::Span::current();
        self.parts.tasks.spawn("tell", context::fenced(fence, writes).instrument(span));
    }
}

fn complain(pod: &SharedPod, what: &str, result: Result<(), Error>) {
    match result {
        Err(error) if !error.is_not_found() => tracing::warn!(pod = %pod.key(), "{what}: {error}"),
        _ => {}
    }
}

/// The change of the pod's status; `None` where it says all this already.
fn status_patch(
    pod: &SharedPod,
    reason: Reason,
    message: &str,
    nominated: Option<&str>,
    now: Timestamp,
) -> Option<Value> {
    let known = condition(pod, "PodScheduled");
    let generation = pod.pod.metadata.generation;
    let said = known.is_some_and(|known| {
        known.status == "False"
            && known.reason.as_deref() == Some(reason.as_str())
            && known.message.as_deref() == Some(message)
            && known.observed_generation == generation
    });
    let nominated = nominated.filter(|node| *node != pod.nominated_node());
    if said && nominated.is_none() {
        return None;
    }
    let since = known.filter(|known| known.status == "False").and_then(|known| known.last_transition_time.as_ref());
    let mut condition = json!({
        "type": "PodScheduled",
        "status": "False",
        "reason": reason.as_str(),
        "message": message,
        "lastProbeTime": null,
        "lastTransitionTime": time::format(since.map_or(now, |since| since.0)),
    });
    if let Some(generation) = generation {
        condition["observedGeneration"] = generation.into();
    }
    let mut status = json!({"conditions": [condition]});
    if let Some(node) = nominated {
        status["nominatedNodeName"] = node.into();
    }
    Some(json!({"metadata": {"uid": pod.uid()}, "status": status}))
}

/// What the status of a pod that has to go says.
fn disruption_patch(victim: &SharedPod, scheduler: &str, now: Timestamp) -> Value {
    let condition = json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": format!("{scheduler}: preempting to accommodate a higher priority pod"),
        "lastProbeTime": null,
        "lastTransitionTime": time::format(now),
    });
    json!({"metadata": {"uid": victim.uid()}, "status": {"conditions": [condition]}})
}

fn condition<'p>(pod: &'p SharedPod, name: &str) -> Option<&'p PodCondition> {
    let conditions = pod.pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().find(|condition| condition.type_ == name)
}

fn shortened(message: &str) -> String {
    const ENDING: &str = " ...";
    if message.len() <= LONGEST_EVENT {
        return message.to_owned();
    }
    let mut end = LONGEST_EVENT - ENDING.len();
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{ENDING}", &message[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pod;

    #[test]
    fn a_condition_is_written_once() {
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let fresh = pod("p").set(&["metadata", "generation"], 1.into());
        let patch = status_patch(&fresh.info(), Reason::Unschedulable, "why", None, now).unwrap();
        let condition = &patch["status"]["conditions"][0];
        assert_eq!(condition["lastTransitionTime"], "2026-01-02T03:04:05Z");
        assert_eq!(condition["observedGeneration"], 1);
        let told = || {
            pod("p")
                .set(&["metadata", "generation"], 1.into())
                .set(&["status", "conditions"], json!([condition]))
                .info()
        };
        let later = "2026-01-02T04:00:00Z".parse().unwrap();
        assert_eq!(status_patch(&told(), Reason::Unschedulable, "why", None, later), None);
        let patch = status_patch(&told(), Reason::Unschedulable, "else", Some("n1"), later).unwrap();
        assert_eq!(patch["status"]["nominatedNodeName"], "n1");
        assert_eq!(patch["status"]["conditions"][0]["lastTransitionTime"], "2026-01-02T03:04:05Z");
    }

    #[test]
    fn long_messages_are_cut() {
        assert_eq!(shortened("short"), "short");
        let cut = shortened(&"é".repeat(1000));
        assert!(cut.len() <= LONGEST_EVENT && cut.ends_with(" ..."));
    }
}
