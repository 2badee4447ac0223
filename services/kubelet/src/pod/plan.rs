//! The pure half of a sync: from the Pod as it is wanted and the runtime as it is, to what is to be done now.
//!
//! Nothing here waits, asks or writes. [`plan`] may be called at any time with the same result; the worker performs
//! the actions, looks again, and plans again (level-triggered).

use super::restart;
use super::view::{self, spec};
use crate::cri::names::container_hash;
use crate::cri::state::{ContainerState, PodState, Stage};
use crate::probe::Results;
use k8s_openapi::api::core::v1::{Container, Pod};

/// Why a container is stopped; the grace period depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillReason {
    /// Its startup probe failed.
    StartupProbe,
    /// Its liveness probe failed.
    LivenessProbe,
    /// Its spec changed, its state is not known, or the Pod ends.
    Other,
}

/// A container to be stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kill {
    /// The runtime's id.
    pub id: String,
    /// Name within the Pod.
    pub name: String,
    /// The event's text.
    pub message: String,
    /// See [`KillReason`].
    pub reason: KillReason,
}

/// What is to be done now, in this order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Stop everything in the Pod first.
    pub kill_pod: bool,
    /// Make a sandbox with this attempt number.
    pub create_sandbox: Option<u32>,
    /// The sandbox that stands (or that is replaced).
    pub sandbox_id: Option<String>,
    /// Containers to stop.
    pub kill: Vec<Kill>,
    /// Indexes of ephemeral containers to start.
    pub start_ephemeral: Vec<usize>,
    /// Indexes of init containers to start.
    pub start_init: Vec<usize>,
    /// Indexes of containers to start.
    pub start: Vec<usize>,
}

/// Is the newest sandbox good, and if not, why?
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxVerdict {
    /// A new one must be made.
    pub changed: bool,
    /// Number of the sandbox to make, or of the one that stands.
    pub attempt: u32,
    /// The newest sandbox.
    pub id: Option<String>,
    /// Message of the condition PodReadyToStartContainers.
    pub message: &'static str,
}

/// Judges the sandboxes of a Pod.
pub fn judge_sandbox(pod: &Pod, state: &PodState) -> SandboxVerdict {
    let Some(newest) = state.sandboxes.first() else {
        return SandboxVerdict { changed: true, attempt: 0, id: None, message: "no pod sandbox exists" };
    };
    let replace =
        |message| SandboxVerdict { changed: true, attempt: newest.attempt + 1, id: Some(newest.id.clone()), message };
    if state.sandboxes.iter().filter(|sandbox| sandbox.ready).count() > 1 {
        return replace("multiple pod sandboxes are ready and need to be reconciled");
    }
    if !newest.ready {
        return replace("pod sandbox is not ready");
    }
    if newest.host_network != view::host_network(pod) {
        return replace("network namespace mode changed and sandbox needs to be recreated");
    }
    if !view::host_network(pod) && newest.ips.is_empty() {
        return replace("pod sandbox has no IP address");
    }
    SandboxVerdict { changed: false, attempt: newest.attempt, id: Some(newest.id.clone()), message: "" }
}

/// What is to be done for a Pod that is to run.
pub fn plan(pod: &Pod, state: &PodState, probes: &Results) -> Plan {
    let verdict = judge_sandbox(pod, state);
    let mut plan = Plan { sandbox_id: verdict.id.clone(), ..Plan::default() };
    if verdict.changed {
        plan.kill_pod = true;
        start_over(pod, state, verdict.attempt, &mut plan);
        return plan;
    }

    for (index, container) in view::ephemeral_containers(pod).iter().enumerate() {
        if state.latest(&container.name).is_none() {
            plan.start_ephemeral.push(index);
        }
    }
    if !plan_init(pod, state, probes, &mut plan) || plan.kill_pod {
        return plan;
    }
    let mut kept = 0;
    for (index, container) in spec(pod).containers.iter().enumerate() {
        match state.latest(&container.name) {
            Some(latest) if latest.stage == Stage::Running => {
                let Some(kill) = verdict_on_running(pod, container, latest, probes) else {
                    kept += 1;
                    continue;
                };
                if kill.restart {
                    plan.start.push(index);
                }
                plan.kill.push(kill.kill);
            }
            latest => {
                if !restart::is_due(pod, container, state) {
                    continue;
                }
                plan.start.push(index);
                if let Some(unknown) = latest.filter(|latest| latest.stage == Stage::Unknown) {
                    plan.kill.push(kill_unknown(unknown, "Container"));
                }
            }
        }
    }
    if kept == 0 && plan.start.is_empty() {
        plan.kill_pod = true;
        plan.start_init.clear();
    }
    plan
}

/// A new sandbox: from the beginning, unless there is nothing left to run.
fn start_over(pod: &Pod, state: &PodState, attempt: u32, plan: &mut Plan) {
    if !restart::on_failure(pod) && attempt != 0 && !state.containers.is_empty() {
        return;
    }
    let due: Vec<usize> = spec(pod)
        .containers
        .iter()
        .enumerate()
        .filter(|(_, container)| {
            let policy = container.restart_policy.as_deref().or(spec(pod).restart_policy.as_deref());
            !(policy == Some("OnFailure") && restart::has_succeeded(container, state))
        })
        .map(|(index, _)| index)
        .collect();
    if due.is_empty() && restart::has_regular_container(pod, state) {
        return;
    }
    plan.create_sandbox = Some(attempt);
    if view::init_containers(pod).is_empty() {
        plan.start = due;
    } else {
        plan.start_init = vec![0];
    }
}

struct RunningVerdict {
    kill: Kill,
    restart: bool,
}

/// A running container is stopped when its spec changed or a probe says so.
fn verdict_on_running(
    pod: &Pod,
    container: &Container,
    latest: &ContainerState,
    probes: &Results,
) -> Option<RunningVerdict> {
    let name = &container.name;
    let restarts = match container.restart_policy.as_deref() {
        Some(policy) => policy != "Never",
        None => restart::on_failure(pod),
    };
    let (message, reason, restart) = if has_changed(container, latest) {
        (format!("Container {name} definition changed"), KillReason::Other, true)
    } else if probes.liveness(&latest.id) == Some(false) {
        (format!("Container {name} failed liveness probe"), KillReason::LivenessProbe, restarts)
    } else if probes.startup(&latest.id) == Some(false) {
        (format!("Container {name} failed startup probe"), KillReason::StartupProbe, restarts)
    } else {
        return None;
    };
    let message = if restart { format!("{message}, will be restarted") } else { message };
    Some(RunningVerdict { kill: Kill { id: latest.id.clone(), name: name.clone(), message, reason }, restart })
}

fn has_changed(container: &Container, latest: &ContainerState) -> bool {
    latest.annotated.hash.is_some_and(|hash| hash != container_hash(container))
}

fn kill_unknown(container: &ContainerState, what: &str) -> Kill {
    Kill {
        id: container.id.clone(),
        name: container.name.clone(),
        message: format!("{what} is in \"unknown\" state, try killing it before restart"),
        reason: KillReason::Other,
    }
}

/// Plans the init containers; says whether all of them are done (sidecars: started).
///
/// They are looked at from the last to the first, because the runtime may already have lost those that ended long ago:
/// one that was ever made proves that those before it had succeeded.
fn plan_init(pod: &Pod, state: &PodState, probes: &Results, plan: &mut Plan) -> bool {
    let all = view::init_containers(pod);
    if all.is_empty() {
        return true;
    }
    let mut initialized = restart::is_initialized(pod, state);
    let mut passed = initialized;
    let last = all.len() - 1;
    for (index, container) in all.iter().enumerate().rev() {
        let sidecar = view::is_sidecar(container);
        let Some(current) = state.active(&container.name) else {
            if passed && sidecar {
                plan.start_init.push(index);
            }
            continue;
        };
        if passed && !sidecar {
            continue;
        }
        match current.stage {
            Stage::Created => plan.start_init.push(index),
            Stage::Running if !sidecar => {}
            Stage::Running => plan_sidecar(index, last, container, current, probes, passed, &mut initialized, plan),
            Stage::Exited if sidecar => plan.start_init.push(index),
            Stage::Exited | Stage::Unknown => {
                if restart::init_has_failed(current.stage, current.exit_code) {
                    if !init_restarts(pod, container, current, state) {
                        plan.kill_pod = true;
                        plan.start_init.clear();
                        return false;
                    }
                    if current.stage == Stage::Unknown {
                        plan.kill.push(kill_unknown(current, "Init container"));
                    }
                    plan.start_init.push(index);
                } else if index == last {
                    initialized = true;
                } else {
                    plan.start_init.push(index + 1);
                }
            }
        }
        passed = true;
    }
    if !passed {
        plan.start_init.push(0);
    }
    plan.start_init.sort_unstable();
    plan.start_init.dedup();
    initialized
}

fn init_restarts(pod: &Pod, container: &Container, current: &ContainerState, state: &PodState) -> bool {
    if current.stage == Stage::Unknown {
        return match container.restart_policy.as_deref() {
            Some(policy) => policy != "Never",
            None => view::is_sidecar(container) || restart::on_failure(pod),
        };
    }
    restart::is_due(pod, container, state)
}

#[allow(clippy::too_many_arguments, reason = "one loop body with a name; its state is the loop's")]
fn plan_sidecar(
    index: usize,
    last: usize,
    container: &Container,
    current: &ContainerState,
    probes: &Results,
    passed: bool,
    initialized: &mut bool,
    plan: &mut Plan,
) {
    let mut kill = |message: String, reason| {
        plan.kill.push(Kill { id: current.id.clone(), name: container.name.clone(), message, reason });
        plan.start_init.push(index);
    };
    let name = &container.name;
    if container.startup_probe.is_some() {
        match probes.startup(&current.id) {
            Some(true) => {}
            Some(false) => {
                kill(format!("Init container {name} failed startup probe"), KillReason::StartupProbe);
                return;
            }
            None => return,
        }
    }
    if has_changed(container, current) {
        kill(format!("Init container {name} definition changed"), KillReason::Other);
    } else if container.liveness_probe.is_some() && probes.liveness(&current.id) == Some(false) {
        kill(format!("Init container {name} failed liveness probe"), KillReason::LivenessProbe);
    }
    if index == last {
        *initialized = true;
    } else if !passed {
        plan.start_init.push(index + 1);
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
