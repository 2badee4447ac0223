//! Binding: the one write that places a pod. It is repeated until its outcome is known.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use tracing::Instrument as _;
use trireme_client::backoff::Backoff;
use trireme_client::{Claim, Client, Error, EventType, Fence, SeriesRecorder, context};
use trireme_telemetry::SpanExt as _;

use super::SharedPod;

pub(super) struct Binder {
    pub(super) client: Client,
    pub(super) claim: Claim,
    /// The claim under which the pod was given its room. It is never taken anew: once it is lost the room may be another's.
    pub(super) fence: Fence,
    pub(super) recorder: SeriesRecorder,
}

/// Why a pod was not bound.
pub(super) struct Failure {
    /// The pod is no longer there.
    pub(super) gone: bool,
    pub(super) why: String,
}

impl Binder {
    /// Binds the pod and tells so.
    pub(super) async fn bind(&self, pod: &SharedPod, node: &str) -> Result<(), Failure> {
        let span = trireme_telemetry::span("bind").attribute("k8s.node.name", node.to_owned()).start();
        let bound = self.write(pod, node).instrument(span.clone()).await;
        match &bound {
            Ok(()) => {
                let text = format!("Successfully assigned {}/{} to {node}", pod.namespace(), pod.name());
                self.recorder.event(pod.pod.as_ref(), None, EventType::Normal, ("Scheduled", "Binding"), text);
                tracing::info!(pod = %pod.key(), node, "bound");
            }
            Err(failure) => span.fail(failure.why.clone()),
        }
        bound
    }

    async fn write(&self, pod: &SharedPod, node: &str) -> Result<(), Failure> {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"namespace": pod.namespace(), "name": pod.name(), "uid": pod.uid()},
            "target": {"kind": "Node", "name": node},
        });
        let pods = self.client.namespaced::<Pod>(pod.namespace());
        let held = || self.claim.current().map(|held| held.epoch);
        let (pods, binding) = (&pods, &binding);
        let write = || {
            let fence = self.fence.clone();
            let request = pods.create_subresource(pod.name(), "binding", binding);
            async move { context::fenced(fence, request).await.map(drop) }
        };
        match until_known(self.fence.epoch, held, write).await {
            Ok(()) => Ok(()),
            Err(Stopped::ClaimLost) => Err(failed("the claim is lost")),
            Err(Stopped::Refused { error, repeated }) => {
                if error.is_claim_lost() {
                    self.claim.doubt();
                }
                // The first of several tries may be the one that counted.
                if repeated && error.is_conflict() {
                    return self.look(pod, node, error).await;
                }
                Err(Failure { gone: error.is_not_found(), why: error.to_string() })
            }
        }
    }

    /// Whether the pod is where it was to go.
    async fn look(&self, pod: &SharedPod, node: &str, conflict: Error) -> Result<(), Failure> {
        let found = self.client.namespaced::<Pod>(pod.namespace()).get(pod.name()).await;
        match found {
            Ok(found) if found.metadata.uid.as_deref() != Some(pod.uid()) => {
                Err(Failure { gone: true, why: "the pod was made anew".to_owned() })
            }
            Ok(found) if found.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node) => Ok(()),
            Ok(_) => Err(failed(conflict.to_string())),
            Err(error) => Err(Failure { gone: error.is_not_found(), why: error.to_string() }),
        }
    }
}

/// Why a write was given up.
#[derive(Debug)]
enum Stopped {
    /// The claim is not held any more, or anew.
    ClaimLost,
    /// The server refused it; before that it was tried without an answer, if `repeated`.
    Refused { error: Error, repeated: bool },
}

/// Repeats a write until its outcome is known, for as long as the claim is held in the epoch that the write is of.
async fn until_known<F: Future<Output = Result<(), Error>>>(
    epoch: i64,
    held: impl Fn() -> Option<i64>,
    write: impl Fn() -> F,
) -> Result<(), Stopped> {
    let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));
    let mut repeated = false;
    while held() == Some(epoch) {
        match write().await {
            Ok(()) => return Ok(()),
            Err(error) if error.is_outcome_unknown() => {
                repeated = true;
                tokio::time::sleep(backoff.wait()).await;
            }
            Err(error) => return Err(Stopped::Refused { error, repeated }),
        }
    }
    Err(Stopped::ClaimLost)
}

fn failed(why: impl Into<String>) -> Failure {
    Failure { gone: false, why: why.into() }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn unknown() -> Error {
        let error = Error::disconnected("the answer got lost");
        assert!(error.is_outcome_unknown());
        error
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_answer_is_asked_for_again() {
        let tries = Cell::new(0);
        let write = || {
            tries.set(tries.get() + 1);
            std::future::ready(if tries.get() < 3 { Err(unknown()) } else { Ok(()) })
        };
        until_known(5, || Some(5), write).await.unwrap();
        assert_eq!(tries.get(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_binding_ends_with_the_claim_that_gave_the_room() {
        // Lost, and held again before the next try: the room may be another pod's by now.
        let (tries, epoch) = (Cell::new(0), Cell::new(5));
        let write = || {
            tries.set(tries.get() + 1);
            epoch.set(6);
            std::future::ready(Err(unknown()))
        };
        assert!(matches!(until_known(5, || Some(epoch.get()), write).await, Err(Stopped::ClaimLost)));
        assert_eq!(tries.get(), 1);
    }
}
