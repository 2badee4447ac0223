//! What is left of a Pod in the runtime and is not needed any more.

use super::leftovers::{self, Places};
use super::view;
use crate::cri::Cri;
use crate::cri::state::{PodState, Stage};
use crate::error::{Error, Result};
use crate::host::Host;
use k8s_openapi::api::core::v1::Pod;

/// The newest dead container of a name is kept for its logs and exit code, and so is the one before a running one.
const KEEP: usize = 2;

/// Removes old attempts of containers with their files, and sandboxes that were replaced and hold nothing.
pub(super) async fn old_attempts(host: &Host, pod: &Pod, state: &PodState) -> Result<()> {
    let (cri, dir) = (&host.cri, host.volumes.pod_dir(view::uid(pod)));
    let config = &host.config;
    let places = Places { links: config.container_log_links.as_deref(), logs: &config.pod_log_dir, pod: &dir };
    let mut seen: std::collections::HashMap<&str, usize> = std::collections::HashMap::new();
    let mut kept_sandboxes = std::collections::HashSet::new();
    for run in &state.containers {
        let count = seen.entry(run.name.as_str()).or_default();
        *count += 1;
        if *count > KEEP && matches!(run.stage, Stage::Exited | Stage::Created) {
            tolerate(cri.remove_container(&run.id).await)?;
            let files = leftovers::of_container(&places, pod, run);
            let removed = tokio::task::spawn_blocking(move || leftovers::remove(&files)).await;
            removed.map_err(|error| Error::Pod(format!("files of a container were not removed: {error}")))?;
        } else {
            kept_sandboxes.insert(run.sandbox_id.as_str());
        }
    }
    for sandbox in state.sandboxes.iter().skip(1) {
        if !sandbox.ready && !kept_sandboxes.contains(sandbox.id.as_str()) {
            tolerate(cri.remove_pod_sandbox(&sandbox.id).await)?;
        }
    }
    Ok(())
}

/// Removes all of a Pod that has been stopped.
pub(super) async fn everything(cri: &Cri, state: &PodState) -> Result<()> {
    for run in &state.containers {
        tolerate(cri.remove_container(&run.id).await)?;
    }
    for sandbox in &state.sandboxes {
        tolerate(cri.stop_pod_sandbox(&sandbox.id).await)?;
        tolerate(cri.remove_pod_sandbox(&sandbox.id).await)?;
    }
    Ok(())
}

fn tolerate(result: Result<()>) -> Result<()> {
    match result {
        Err(error) if error.is_not_found() => Ok(()),
        other => other,
    }
}
