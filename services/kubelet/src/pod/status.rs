//! The status of a Pod, from what the runtime has: pure, and field by field what upstream's kubelet reports.

use super::conditions;
use super::restart;
use super::view::{self, Role, spec};
use crate::cri::state::{ContainerState as Observed, PodState, Stage};
use crate::probe::Results;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus,
    HostIP, Pod, PodIP, PodStatus, VolumeMountStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use std::collections::{BTreeMap, HashMap};

/// Why a container could not be started: reason and message of its waiting state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartFailure {
    /// `ImagePullBackOff`, `CreateContainerConfigError`, `CrashLoopBackOff`, …
    pub reason: String,
    /// For people.
    pub message: String,
}

/// All that a status is made of.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    /// As wanted; its status is what the API server knew.
    pub pod: &'a Pod,
    /// As the runtime has it.
    pub state: &'a PodState,
    /// The status reported last.
    pub previous: &'a PodStatus,
    /// Containers that could not be started, by name.
    pub failures: &'a HashMap<String, StartFailure>,
    /// What the probes found.
    pub probes: &'a Results,
    /// The Pod will not run again, whatever its policy.
    pub terminal: bool,
    /// Addresses of the node.
    pub node_ips: &'a [String],
    /// Scheme of container ids.
    pub runtime_name: &'a str,
    /// The time of conditions that change now.
    pub now: Timestamp,
}

/// Seconds are all that the API keeps of a time.
pub fn time(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

fn nanos(at: i64) -> Option<Time> {
    (at > 0).then(|| Timestamp::from_nanosecond(i128::from(at)).ok()).flatten().map(time)
}

/// Makes the status.
pub fn generate(inputs: &Inputs<'_>) -> PodStatus {
    let Inputs { pod, previous, .. } = *inputs;
    let mut status = PodStatus {
        qos_class: previous.qos_class.clone().or_else(|| Some(super::qos::class(pod).to_string())),
        start_time: previous.start_time.clone().or_else(|| Some(time(inputs.now))),
        observed_generation: pod.metadata.generation,
        ..PodStatus::default()
    };
    let inits = view::init_containers(pod);
    let ephemeral = view::ephemeral_containers(pod);
    status.container_statuses =
        some(containers(inputs, Role::Regular, &spec(pod).containers, previous.container_statuses.as_deref()));
    status.init_container_statuses =
        some(containers(inputs, Role::Init, inits, previous.init_container_statuses.as_deref()));
    status.ephemeral_container_statuses =
        some(containers(inputs, Role::Ephemeral, &ephemeral, previous.ephemeral_container_statuses.as_deref()));

    addresses(inputs, &mut status);
    let phase = settle_phase(inputs, phase(inputs, &status));
    if Some(phase.as_str()) == previous.phase.as_deref() {
        let known = pod.status.as_ref();
        status.reason = previous.reason.clone().or_else(|| known.and_then(|known| known.reason.clone()));
        status.message = previous.message.clone().or_else(|| known.and_then(|known| known.message.clone()));
    }
    status.phase = Some(phase);
    mark_ready(inputs, &mut status);
    status.conditions = Some(conditions::generate(inputs, &status));
    status
}

fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

/// A finished Pod stays finished.
fn settle_phase(inputs: &Inputs<'_>, phase: String) -> String {
    let known = view::phase(inputs.pod);
    if view::is_terminal_phase(known) {
        return known.to_owned();
    }
    match inputs.previous.phase.as_deref() {
        Some(previous) if view::is_terminal_phase(previous) && !view::is_terminal_phase(&phase) => previous.to_owned(),
        _ => phase,
    }
}

fn addresses(inputs: &Inputs<'_>, status: &mut PodStatus) {
    let Inputs { pod, state, previous, node_ips, .. } = *inputs;
    status.host_ip = node_ips.first().cloned();
    status.host_ips = some(node_ips.iter().map(|ip| HostIP { ip: ip.clone() }).collect());
    let ips = if view::host_network(pod) { node_ips } else { state.ips() };
    if ips.is_empty() {
        // A Pod that ended keeps showing the address it had.
        status.pod_ip = previous.pod_ip.clone();
        status.pod_ips = previous.pod_ips.clone();
    } else {
        status.pod_ip = ips.first().cloned();
        status.pod_ips = some(ips.iter().map(|ip| PodIP { ip: ip.clone() }).collect());
    }
}

fn containers(
    inputs: &Inputs<'_>,
    role: Role,
    specs: &[Container],
    previous: Option<&[ContainerStatus]>,
) -> Vec<ContainerStatus> {
    let previous: BTreeMap<&str, &ContainerStatus> =
        previous.unwrap_or_default().iter().map(|status| (status.name.as_str(), status)).collect();
    let all = specs
        .iter()
        .map(|container| one_container(inputs, role, container, previous.get(container.name.as_str()).copied()));
    let mut all: Vec<ContainerStatus> = all.collect();
    if role != Role::Init {
        all.sort_by(|a, b| a.name.cmp(&b.name));
    }
    all
}

fn one_container(
    inputs: &Inputs<'_>,
    role: Role,
    container: &Container,
    old: Option<&ContainerStatus>,
) -> ContainerStatus {
    let state = inputs.state;
    let mut runs = state.containers.iter().filter(|run| run.name == container.name);
    let mut status = match runs.next() {
        Some(latest) => {
            let mut status = from_run(inputs, container, latest, old);
            if let Some(before) = runs.next() {
                status.last_state = Some(state_of(inputs, before));
            } else if let Some(old) = old {
                status.last_state = old.last_state.clone();
            }
            status
        }
        None => without_run(inputs, container, old),
    };
    status.volume_mounts = some(mounts(container));
    if role == Role::Init && settled_init(inputs, container, &mut status) {
        return status;
    }
    if role != Role::Ephemeral || state.latest(&container.name).is_none() {
        waiting_for_start(inputs, container, &mut status);
    }
    status
}

/// A container that is due but could not be started waits, and says why.
fn waiting_for_start(inputs: &Inputs<'_>, container: &Container, status: &mut ContainerStatus) {
    let Some(failure) = inputs.failures.get(&container.name) else { return };
    if !restart::is_due(inputs.pod, container, inputs.state) {
        return;
    }
    if status.state.as_ref().is_some_and(|state| state.terminated.is_some()) {
        status.last_state = status.state.take();
    }
    let message = Some(failure.message.clone()).filter(|message| !message.is_empty());
    let waiting = ContainerStateWaiting { reason: Some(failure.reason.clone()), message };
    status.state = Some(ContainerState { waiting: Some(waiting), ..ContainerState::default() });
}

/// An init container that did its work, or that must have done it because the Pod went on.
fn settled_init(inputs: &Inputs<'_>, container: &Container, status: &mut ContainerStatus) -> bool {
    match inputs.state.latest(&container.name) {
        Some(latest) => latest.stage == Stage::Exited && latest.exit_code == 0,
        None => {
            let waits = status.state.as_ref().is_some_and(|state| state.waiting.is_some());
            if !waits || view::is_sidecar(container) || !restart::has_regular_container(inputs.pod, inputs.state) {
                return false;
            }
            let terminated = ContainerStateTerminated {
                reason: Some("Completed".into()),
                message: Some(
                    "Unable to get init container status from container runtime and pod has been initialized, \
                     treat it as exited normally"
                        .into(),
                ),
                ..ContainerStateTerminated::default()
            };
            status.state = Some(ContainerState { terminated: Some(terminated), ..ContainerState::default() });
            true
        }
    }
}

fn mounts(container: &Container) -> Vec<VolumeMountStatus> {
    let mounts = container.volume_mounts.as_deref().unwrap_or_default();
    mounts
        .iter()
        .map(|mount| VolumeMountStatus {
            name: mount.name.clone(),
            mount_path: mount.mount_path.clone(),
            read_only: mount.read_only.filter(|read_only| *read_only),
            recursive_read_only: mount.read_only.filter(|read_only| *read_only).map(|_| "Disabled".into()),
            ..VolumeMountStatus::default()
        })
        .collect()
}

fn default_waiting(inputs: &Inputs<'_>) -> ContainerState {
    let reason = if view::init_containers(inputs.pod).is_empty() { "ContainerCreating" } else { "PodInitializing" };
    let waiting = ContainerStateWaiting { reason: Some(reason.into()), message: None };
    ContainerState { waiting: Some(waiting), ..ContainerState::default() }
}

/// The runtime has no container of that name (yet, or any more).
fn without_run(inputs: &Inputs<'_>, container: &Container, old: Option<&ContainerStatus>) -> ContainerStatus {
    let fresh = ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        state: Some(default_waiting(inputs)),
        ..ContainerStatus::default()
    };
    let Some(old) = old else { return fresh };
    let old_state = old.state.clone().unwrap_or_default();
    if old_state.terminated.is_some() {
        return old.clone();
    }
    let mut status = ContainerStatus { restart_count: old.restart_count, last_state: old.last_state.clone(), ..fresh };
    let has_last = status.last_state.as_ref().is_some_and(|last| last.terminated.is_some());
    if old_state.running.is_some() && !has_last {
        // It ran, and now nobody knows of it: it ended with a code that nobody saw.
        let terminated = ContainerStateTerminated {
            reason: Some("ContainerStatusUnknown".into()),
            message: Some(
                "The container could not be located when the pod was deleted.  The container used to be Running".into(),
            ),
            exit_code: 137,
            ..ContainerStateTerminated::default()
        };
        status.last_state = Some(ContainerState { terminated: Some(terminated), ..ContainerState::default() });
        if inputs.pod.metadata.deletion_timestamp.is_none() {
            status.restart_count += 1;
        }
    }
    status
}

fn container_id(inputs: &Inputs<'_>, run: &Observed) -> String {
    format!("{}://{}", inputs.runtime_name, run.id)
}

fn from_run(
    inputs: &Inputs<'_>,
    container: &Container,
    run: &Observed,
    old: Option<&ContainerStatus>,
) -> ContainerStatus {
    let mut status = ContainerStatus {
        name: run.name.clone(),
        image: run.image.clone(),
        image_id: run.image_ref.clone(),
        container_id: Some(container_id(inputs, run)),
        restart_count: i32::try_from(run.annotated.restart_count).unwrap_or(i32::MAX),
        state: Some(state_of(inputs, run)),
        resources: container.resources.clone(),
        allocated_resources: container.resources.as_ref().and_then(|resources| resources.requests.clone()),
        ..ContainerStatus::default()
    };
    if run.stage == Stage::Unknown
        && let Some(old) = old
        && old.state.as_ref().is_some_and(|state| state.running.is_some())
    {
        let terminated = ContainerStateTerminated {
            reason: Some("ContainerStatusUnknown".into()),
            message: Some("The container could not be located when the pod was terminated".into()),
            exit_code: 137,
            ..ContainerStateTerminated::default()
        };
        status.state = Some(ContainerState { terminated: Some(terminated), ..ContainerState::default() });
        status.restart_count = old.restart_count + 1;
    }
    status
}

fn state_of(inputs: &Inputs<'_>, run: &Observed) -> ContainerState {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    match run.stage {
        Stage::Running => ContainerState {
            running: Some(ContainerStateRunning { started_at: nanos(run.started_at) }),
            ..ContainerState::default()
        },
        Stage::Exited => ContainerState {
            terminated: Some(ContainerStateTerminated {
                container_id: Some(container_id(inputs, run)),
                exit_code: run.exit_code,
                reason: text(&run.reason),
                message: text(&run.message),
                started_at: nanos(run.started_at),
                finished_at: nanos(run.finished_at),
                ..ContainerStateTerminated::default()
            }),
            ..ContainerState::default()
        },
        Stage::Created | Stage::Unknown => {
            ContainerState { waiting: Some(ContainerStateWaiting::default()), ..ContainerState::default() }
        }
    }
}

/// Fills `started` and `ready` from the probes.
fn mark_ready(inputs: &Inputs<'_>, status: &mut PodStatus) {
    let previous = inputs.previous;
    let sections = [
        (Role::Regular, status.container_statuses.as_mut(), previous.container_statuses.as_deref()),
        (Role::Init, status.init_container_statuses.as_mut(), previous.init_container_statuses.as_deref()),
    ];
    for (role, section, old) in sections {
        for one in section.into_iter().flatten() {
            let Some((_, container)) = view::container(inputs.pod, &one.name) else { continue };
            let old = old.and_then(|all| all.iter().find(|old| old.name == one.name));
            mark_one(inputs, role, &container, one, old);
        }
    }
    for one in status.ephemeral_container_statuses.iter_mut().flatten() {
        one.ready = false;
    }
}

fn mark_one(
    inputs: &Inputs<'_>,
    role: Role,
    container: &Container,
    status: &mut ContainerStatus,
    old: Option<&ContainerStatus>,
) {
    let state = status.state.clone().unwrap_or_default();
    if role == Role::Init && !view::is_sidecar(container) {
        let done = state.terminated.as_ref().is_some_and(|terminated| terminated.exit_code == 0);
        status.ready = done;
        status.started = Some(state.running.is_some());
        return;
    }
    let run = inputs.state.latest(&container.name).filter(|run| run.stage == Stage::Running);
    let (Some(run), true) = (run, state.running.is_some()) else {
        status.ready = false;
        status.started = Some(false);
        return;
    };
    // What was true before the kubelet started anew stays true until a probe says otherwise.
    let old = old.filter(|old| old.container_id == status.container_id);
    let started = match inputs.probes.startup(&run.id) {
        Some(result) => result,
        None => container.startup_probe.is_none() || old.is_some_and(|old| old.started == Some(true)),
    };
    status.started = Some(started);
    status.ready = started
        && match inputs.probes.readiness(&run.id) {
            Some(result) => result,
            None => container.readiness_probe.is_none() || old.is_some_and(|old| old.ready),
        };
}

/// Counts of the containers that the phase depends on.
#[derive(Default)]
struct Census {
    waiting: usize,
    running: usize,
    stopped: usize,
    stopped_for_good: usize,
    succeeded: usize,
    unknown: usize,
}

fn phase(inputs: &Inputs<'_>, status: &PodStatus) -> String {
    let pod = inputs.pod;
    let all: HashMap<&str, &ContainerStatus> = status
        .container_statuses
        .iter()
        .chain(status.init_container_statuses.iter())
        .flatten()
        .map(|status| (status.name.as_str(), status))
        .collect();
    let mut census = Census::default();
    let mut pending_init = false;
    let mut pending_sidecar = false;

    for container in view::init_containers(pod) {
        let state = all.get(container.name.as_str()).and_then(|status| status.state.clone()).unwrap_or_default();
        let last = all.get(container.name.as_str()).and_then(|status| status.last_state.clone()).unwrap_or_default();
        if view::is_sidecar(container) {
            if state.running.is_some() {
                census.running += 1;
                let run = inputs.state.latest(&container.name);
                let started = container.startup_probe.is_none()
                    || run.is_some_and(|run| inputs.probes.startup(&run.id) == Some(true));
                pending_sidecar |= !started;
            } else if state.waiting.is_some() && last.terminated.is_none() {
                pending_sidecar = true;
                census.waiting += 1;
            }
            continue;
        }
        let ended = state.terminated.as_ref().or(if state.waiting.is_some() { last.terminated.as_ref() } else { None });
        match ended {
            Some(end) if end.exit_code == 0 => {}
            Some(end) if !restart::restarts_after(container, spec(pod), end.exit_code) => return "Failed".into(),
            Some(_) => {}
            None => pending_init = true,
        }
    }
    for container in &spec(pod).containers {
        count(container, pod, all.get(container.name.as_str()).copied(), &mut census);
    }
    let initialized = restart::is_initialized(pod, inputs.state);
    if pending_init || (pending_sidecar && !initialized) || census.waiting > 0 {
        return "Pending".into();
    }
    if census.unknown > 0 {
        return "Pending".into();
    }
    if census.running > 0 {
        return "Running".into();
    }
    if census.stopped == 0 {
        return "Pending".into();
    }
    let ended = if census.stopped == census.succeeded { "Succeeded" } else { "Failed" };
    let for_good = census.stopped == census.stopped_for_good || (inputs.terminal && !view::is_static(pod));
    if for_good { ended.into() } else { "Running".into() }
}

fn count(container: &Container, pod: &Pod, status: Option<&ContainerStatus>, census: &mut Census) {
    let state = status.and_then(|status| status.state.clone()).unwrap_or_default();
    let last = status.and_then(|status| status.last_state.clone()).unwrap_or_default();
    if state.running.is_some() {
        census.running += 1;
        return;
    }
    let ended = match (state.terminated.as_ref(), state.waiting.is_some()) {
        (Some(end), _) => Some(end),
        (None, true) => last.terminated.as_ref(),
        (None, false) => {
            census.unknown += 1;
            return;
        }
    };
    let Some(end) = ended else {
        census.waiting += 1;
        return;
    };
    census.stopped += 1;
    if !restart::restarts_after(container, spec(pod), end.exit_code) {
        census.stopped_for_good += 1;
    }
    if end.exit_code == 0 && state.terminated.is_some() {
        census.succeeded += 1;
    }
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
