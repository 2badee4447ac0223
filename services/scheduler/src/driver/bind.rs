//! Binding: the one write that places a pod. It is repeated until its outcome is known.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use tracing::Instrument as _;
use trireme_client::backoff::Backoff;
use trireme_client::{Claim, Client, Error, EventRecorder, EventType, context};
use trireme_telemetry::SpanExt as _;

use super::SharedPod;

pub(super) struct Binder {
    pub(super) client: Client,
    pub(super) claim: Claim,
    pub(super) recorder: EventRecorder,
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
                self.recorder.event(pod.pod.as_ref(), EventType::Normal, "Scheduled", text);
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
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));
        let mut repeated = false;
        loop {
            let Some(fence) = self.claim.fence("scheduler", &pod.key().to_string()) else {
                return Err(failed("the claim is lost"));
            };
            let request = pods.create_subresource(pod.name(), "binding", &binding);
            match context::fenced(fence, request).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_outcome_unknown() => {
                    repeated = true;
                    tokio::time::sleep(backoff.wait()).await;
                }
                // The first of several tries may be the one that counted.
                Err(error) if repeated && error.is_conflict() => return self.look(pod, node, error).await,
                Err(error) => {
                    if error.is_claim_lost() {
                        self.claim.doubt();
                    }
                    return Err(Failure { gone: error.is_not_found(), why: error.to_string() });
                }
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

fn failed(why: impl Into<String>) -> Failure {
    Failure { gone: false, why: why.into() }
}
