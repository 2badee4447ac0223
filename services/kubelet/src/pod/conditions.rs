//! The conditions of a Pod that its kubelet owns.

use super::plan::judge_sandbox;
use super::status::{Inputs, time};
use super::view::{self, spec};
use k8s_openapi::api::core::v1::{ContainerStatus, PodCondition, PodStatus};

/// Types that nobody but the kubelet writes.
pub const OWNED: [&str; 5] = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

struct Verdict {
    type_: &'static str,
    status: bool,
    reason: &'static str,
    message: String,
}

impl Verdict {
    fn good(type_: &'static str) -> Self {
        Self { type_, status: true, reason: "", message: String::new() }
    }

    fn bad(type_: &'static str, reason: &'static str, message: String) -> Self {
        Self { type_, status: false, reason, message }
    }
}

/// All conditions of a status whose containers and phase are already filled in; those of others are kept.
pub fn generate(inputs: &Inputs<'_>, status: &PodStatus) -> Vec<PodCondition> {
    let known = inputs.pod.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let mut all: Vec<PodCondition> =
        known.into_iter().filter(|condition| !OWNED.contains(&condition.type_.as_str())).collect();
    // Set by this kubelet once, when it evicts.
    let before = inputs.previous.conditions.as_deref().unwrap_or_default();
    if let Some(disruption) = before.iter().find(|condition| condition.type_ == "DisruptionTarget")
        && !all.iter().any(|condition| condition.type_ == "DisruptionTarget")
    {
        all.push(disruption.clone());
    }
    let containers = containers_ready(inputs, status);
    let ready = ready(inputs, &all, &containers);
    for verdict in
        [ready_to_start(inputs), initialized(inputs, status), ready, containers, Verdict::good("PodScheduled")]
    {
        all.push(condition(inputs, verdict));
    }
    all
}

/// A condition's time is that of its last change of status.
fn condition(inputs: &Inputs<'_>, verdict: Verdict) -> PodCondition {
    let status = if verdict.status { "True" } else { "False" };
    let known = inputs.pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let before = inputs.previous.conditions.as_deref().unwrap_or_default();
    let same = before.iter().chain(known).find(|old| old.type_ == verdict.type_ && old.status == status);
    PodCondition {
        type_: verdict.type_.into(),
        status: status.into(),
        reason: (!verdict.reason.is_empty()).then(|| verdict.reason.into()),
        message: (!verdict.message.is_empty()).then_some(verdict.message),
        last_transition_time: same.and_then(|old| old.last_transition_time.clone()).or_else(|| Some(time(inputs.now))),
        last_probe_time: None,
        observed_generation: inputs.pod.metadata.generation,
    }
}

fn ready_to_start(inputs: &Inputs<'_>) -> Verdict {
    let verdict = judge_sandbox(inputs.pod, inputs.state);
    if verdict.changed {
        Verdict::bad("PodReadyToStartContainers", "PodSandboxNotReady", verdict.message.into())
    } else {
        Verdict::good("PodReadyToStartContainers")
    }
}

fn listed(names: &[&str]) -> String {
    format!("[{}]", names.join(" "))
}

fn complaints(unknown: &[&str], bad: &[&str], what: &str) -> String {
    let mut all = Vec::new();
    if !unknown.is_empty() {
        all.push(format!("containers with unknown status: {}", listed(unknown)));
    }
    if !bad.is_empty() {
        all.push(format!("containers with {what} status: {}", listed(bad)));
    }
    all.join(", ")
}

fn find<'a>(status: &'a PodStatus, name: &str) -> Option<&'a ContainerStatus> {
    let lists = [status.container_statuses.as_deref(), status.init_container_statuses.as_deref()];
    lists.into_iter().flatten().flatten().find(|container| container.name == name)
}

fn containers_ready(inputs: &Inputs<'_>, status: &PodStatus) -> Verdict {
    const TYPE: &str = "ContainersReady";
    let (mut unknown, mut unready) = (Vec::new(), Vec::new());
    let sidecars = view::init_containers(inputs.pod).iter().filter(|container| view::is_sidecar(container));
    for container in sidecars.chain(&spec(inputs.pod).containers) {
        match find(status, &container.name) {
            None => unknown.push(container.name.as_str()),
            Some(one) if !one.ready => unready.push(container.name.as_str()),
            Some(_) => {}
        }
    }
    match status.phase.as_deref() {
        Some("Succeeded") if unknown.is_empty() => return Verdict::bad(TYPE, "PodCompleted", String::new()),
        Some("Failed") => return Verdict::bad(TYPE, "PodFailed", String::new()),
        _ => {}
    }
    let message = complaints(&unknown, &unready, "unready");
    if message.is_empty() { Verdict::good(TYPE) } else { Verdict::bad(TYPE, "ContainersNotReady", message) }
}

fn ready(inputs: &Inputs<'_>, others: &[PodCondition], containers: &Verdict) -> Verdict {
    const TYPE: &str = "Ready";
    if !containers.status {
        return Verdict::bad(TYPE, containers.reason, containers.message.clone());
    }
    let gates = spec(inputs.pod).readiness_gates.as_deref().unwrap_or_default();
    let mut complaints = Vec::new();
    for gate in gates {
        let type_ = &gate.condition_type;
        match others.iter().find(|condition| &condition.type_ == type_) {
            None => {
                complaints.push(format!("corresponding condition of pod readiness gate \"{type_}\" does not exist."))
            }
            Some(condition) if condition.status != "True" => complaints.push(format!(
                "the status of pod readiness gate \"{type_}\" is not \"True\", but {}",
                condition.status
            )),
            Some(_) => {}
        }
    }
    if complaints.is_empty() {
        Verdict::good(TYPE)
    } else {
        Verdict::bad(TYPE, "ReadinessGatesNotReady", complaints.join(", "))
    }
}

fn initialized(inputs: &Inputs<'_>, status: &PodStatus) -> Verdict {
    const TYPE: &str = "Initialized";
    let (mut unknown, mut incomplete) = (Vec::new(), Vec::new());
    for container in view::init_containers(inputs.pod) {
        let Some(one) = find(status, &container.name) else {
            unknown.push(container.name.as_str());
            continue;
        };
        let done = if view::is_sidecar(container) { one.started == Some(true) } else { one.ready };
        if !done {
            incomplete.push(container.name.as_str());
        }
    }
    if status.phase.as_deref() == Some("Succeeded") && unknown.is_empty() {
        return Verdict { type_: TYPE, status: true, reason: "PodCompleted", message: String::new() };
    }
    let began = status
        .container_statuses
        .iter()
        .flatten()
        .any(|one| one.state.as_ref().is_some_and(|state| state.running.is_some() || state.terminated.is_some()));
    let message = complaints(&unknown, &incomplete, "incomplete");
    if began || message.is_empty() {
        Verdict::good(TYPE)
    } else {
        Verdict::bad(TYPE, "ContainersNotInitialized", message)
    }
}
