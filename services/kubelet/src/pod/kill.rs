//! Stopping containers, each with its grace period and its preStop hook.

use super::plan::KillReason;
use super::view;
use super::{MINIMUM_GRACE_SECONDS, hooks};
use crate::cri::state::{ContainerState, PodState};
use crate::error::Result;
use crate::host::Host;
use futures::future::join_all;
use k8s_openapi::api::core::v1::{Container, Lifecycle, Pod};
use std::time::{Duration, Instant};

/// Stops one container.
pub(super) async fn container(
    host: &Host,
    pod: &Pod,
    run: &ContainerState,
    ip: &str,
    message: Option<String>,
    reason: KillReason,
    grace_override: Option<i64>,
) -> Result<()> {
    let spec = spec_of(pod, run);
    let mut grace = grace_override.unwrap_or_else(|| grace_of(pod, &spec, run, reason));
    let message = message.unwrap_or_else(|| format!("Stopping container {}", run.name));
    host.api.events.pod(pod, Some(&run.name), false, "Killing", message);
    let pre_stop = spec.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref());
    if let Some(handler) = pre_stop.filter(|_| grace > 0) {
        let started = Instant::now();
        let hook = hooks::run(&host.cri, &spec, &run.id, ip, handler);
        match tokio::time::timeout(Duration::from_secs(grace.unsigned_abs()), hook).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::info!(container = run.name, error, "the preStop hook failed");
                host.api.events.pod(pod, Some(&run.name), true, "FailedPreStopHook", "PreStopHook failed".into());
            }
            Err(_) => tracing::info!(container = run.name, "the preStop hook did not end in the grace period"),
        }
        grace -= i64::try_from(started.elapsed().as_secs()).unwrap_or(grace);
    }
    match host.cri.stop_container(&run.id, grace.max(MINIMUM_GRACE_SECONDS)).await {
        Err(error) if error.is_not_found() => Ok(()),
        other => other,
    }
}

/// The spec, or what its annotations keep of it when the Pod is no longer known.
fn spec_of(pod: &Pod, run: &ContainerState) -> Container {
    view::container(pod, &run.name).map_or_else(
        || Container {
            name: run.name.clone(),
            ports: Some(run.annotated.ports.clone()),
            lifecycle: run
                .annotated
                .pre_stop
                .clone()
                .map(|handler| Lifecycle { pre_stop: Some(handler), ..Lifecycle::default() }),
            ..Container::default()
        },
        |(_, container)| container,
    )
}

fn grace_of(pod: &Pod, spec: &Container, run: &ContainerState, reason: KillReason) -> i64 {
    if let Some(seconds) = pod.metadata.deletion_grace_period_seconds {
        return seconds;
    }
    let probe = match reason {
        KillReason::StartupProbe => spec.startup_probe.as_ref(),
        KillReason::LivenessProbe => spec.liveness_probe.as_ref(),
        KillReason::Other => None,
    };
    probe
        .and_then(|probe| probe.termination_grace_period_seconds)
        .or(view::spec(pod).termination_grace_period_seconds)
        .or(run.annotated.deletion_grace_seconds)
        .or(run.annotated.termination_grace_seconds)
        .unwrap_or(MINIMUM_GRACE_SECONDS)
}

/// Stops everything in a Pod: containers, then sidecars from the last to the first, then the sandboxes.
pub(super) async fn pod(host: &Host, pod: &Pod, state: &PodState, grace_override: Option<i64>) -> Result<()> {
    let ip = state.ips().first().cloned().unwrap_or_default();
    let started = Instant::now();
    let left = |grace: Option<i64>| {
        grace.map(|grace| (grace - i64::try_from(started.elapsed().as_secs()).unwrap_or(grace)).max(1))
    };
    let sidecar_names: Vec<&str> = view::init_containers(pod)
        .iter()
        .filter(|container| view::is_sidecar(container))
        .map(|container| container.name.as_str())
        .collect();
    let (sidecars, others): (Vec<_>, Vec<_>) =
        state.alive().partition(|run| sidecar_names.contains(&run.name.as_str()));
    let stopped =
        join_all(others.iter().map(|run| container(host, pod, run, &ip, None, KillReason::Other, grace_override)))
            .await;
    let mut failed = stopped.into_iter().find_map(Result::err);
    for name in sidecar_names.iter().rev() {
        for run in sidecars.iter().filter(|run| run.name == *name) {
            let grace = left(grace_override.or(Some(view::grace_seconds(pod))));
            let stopped = container(host, pod, run, &ip, None, KillReason::Other, grace).await;
            failed = failed.or(stopped.err());
        }
    }
    if let Some(error) = failed {
        host.api.events.pod(pod, None, true, "FailedKillPod", format!("error killing pod: {error}"));
        return Err(error);
    }
    for sandbox in &state.sandboxes {
        match host.cri.stop_pod_sandbox(&sandbox.id).await {
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
