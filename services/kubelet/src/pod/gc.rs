//! What is left of a Pod in the runtime and is not needed any more.

use crate::cri::Cri;
use crate::cri::state::{PodState, Stage};
use crate::error::Result;

/// The newest dead container of a name is kept for its logs and exit code, and so is the one before a running one.
const KEEP: usize = 2;

/// Removes old attempts of containers, and sandboxes that were replaced and hold nothing.
pub(super) async fn old_attempts(cri: &Cri, state: &PodState) -> Result<()> {
    let mut seen: std::collections::HashMap<&str, usize> = std::collections::HashMap::new();
    let mut kept_sandboxes = std::collections::HashSet::new();
    for run in &state.containers {
        let count = seen.entry(run.name.as_str()).or_default();
        *count += 1;
        if *count > KEEP && matches!(run.stage, Stage::Exited | Stage::Created) {
            tolerate(cri.remove_container(&run.id).await)?;
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
