//! The status of the node.

use super::info;
use super::pressure::Pressure;
use super::runtime::Condition;
use crate::config::Config;
use crate::cri::{Cri, Identity};
use crate::host::{Allocatable, Machine};
use k8s_openapi::api::core::v1::{
    ContainerImage, DaemonEndpoint, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeStatus,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// So many images are listed, the largest first.
const IMAGES: usize = 50;
/// The runtime must have been seen whole within this time.
const RELIST: Duration = Duration::from_secs(180);

/// What a status is made of.
pub(super) struct Inputs<'a> {
    pub(super) config: &'a Config,
    pub(super) machine: &'a Machine,
    pub(super) port: u16,
    pub(super) runtime: &'a Condition,
    pub(super) identity: &'a Identity,
    pub(super) last_look: Option<Instant>,
    pub(super) images: Vec<ContainerImage>,
    pub(super) pressure: Pressure,
    pub(super) previous: &'a [NodeCondition],
    pub(super) now: Timestamp,
}

/// The images of the runtime, as the node lists them.
pub(super) async fn images(cri: &Cri) -> Vec<ContainerImage> {
    let Ok(mut images) = cri.list_images().await else { return Vec::new() };
    images.sort_by(|a, b| b.size.cmp(&a.size).then_with(|| a.id.cmp(&b.id)));
    images
        .into_iter()
        .take(IMAGES)
        .map(|image| ContainerImage {
            names: Some(image.repo_digests.into_iter().chain(image.repo_tags).take(5).collect()),
            size_bytes: i64::try_from(image.size).ok(),
        })
        .collect()
}

/// Makes the status.
pub(super) fn generate(inputs: Inputs<'_>) -> NodeStatus {
    let Machine { ips, milli_cpu, memory, storage, allocatable } = inputs.machine;
    let capacity = Allocatable { milli_cpu: *milli_cpu, memory: *memory, storage: *storage, pods: allocatable.pods };
    let internal = ips.iter().map(|ip| NodeAddress { address: ip.clone(), type_: "InternalIP".into() });
    let hostname = NodeAddress { address: inputs.config.node_name.clone(), type_: "Hostname".into() };
    NodeStatus {
        addresses: Some(internal.chain([hostname]).collect()),
        capacity: Some(resources(&capacity)),
        allocatable: Some(resources(allocatable)),
        conditions: Some(conditions(&inputs)),
        daemon_endpoints: Some(NodeDaemonEndpoints {
            kubelet_endpoint: Some(DaemonEndpoint { port: inputs.port.into() }),
        }),
        images: Some(inputs.images),
        node_info: Some(info::read(inputs.identity)),
        ..NodeStatus::default()
    }
}

fn resources(of: &Allocatable) -> BTreeMap<String, Quantity> {
    let cpu = if of.milli_cpu % 1000 == 0 { (of.milli_cpu / 1000).to_string() } else { format!("{}m", of.milli_cpu) };
    let kib = |bytes: i64| if bytes % 1024 == 0 { format!("{}Ki", bytes / 1024) } else { bytes.to_string() };
    [
        ("cpu", cpu),
        ("memory", kib(of.memory)),
        ("ephemeral-storage", kib(of.storage)),
        ("pods", of.pods.to_string()),
        ("hugepages-1Gi", "0".into()),
        ("hugepages-2Mi", "0".into()),
    ]
    .into_iter()
    .map(|(name, amount)| (name.to_owned(), Quantity(amount)))
    .collect()
}

fn conditions(inputs: &Inputs<'_>) -> Vec<NodeCondition> {
    let pressure = |type_, bad: bool, (bad_reason, bad_words), (good_reason, good_words)| {
        let (reason, message) = if bad { (bad_reason, bad_words) } else { (good_reason, good_words) };
        condition(inputs, type_, bad, reason, message)
    };
    let Pressure { memory, disk, pids } = inputs.pressure;
    vec![
        pressure(
            "MemoryPressure",
            memory,
            ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
            ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ),
        pressure(
            "DiskPressure",
            disk,
            ("KubeletHasDiskPressure", "kubelet has disk pressure"),
            ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ),
        pressure(
            "PIDPressure",
            pids,
            ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
            ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ),
        ready(inputs),
    ]
}

fn ready(inputs: &Inputs<'_>) -> NodeCondition {
    let mut complaints: Vec<String> = Vec::new();
    complaints.extend(inputs.runtime.runtime.clone().err());
    complaints.extend(inputs.runtime.network.clone().err());
    complaints.dedup();
    match inputs.last_look {
        None => complaints.push("PLEG is not healthy: pleg has yet to be successful".into()),
        Some(at) if at.elapsed() > RELIST => complaints.push(format!(
            "PLEG is not healthy: pleg was last seen active {} ago; threshold is 3m0s",
            crate::pod::backoff::go_duration(at.elapsed())
        )),
        Some(_) => {}
    }
    match complaints.as_slice() {
        [] => condition(inputs, "Ready", true, "KubeletReady", "kubelet is posting ready status"),
        [one] => condition(inputs, "Ready", false, "KubeletNotReady", one),
        many => condition(inputs, "Ready", false, "KubeletNotReady", &format!("[{}]", many.join(", "))),
    }
}

fn condition(inputs: &Inputs<'_>, type_: &str, status: bool, reason: &str, message: &str) -> NodeCondition {
    let status = if status { "True" } else { "False" };
    let now = Time(Timestamp::from_second(inputs.now.as_second()).unwrap_or(inputs.now));
    let before = inputs.previous.iter().find(|condition| condition.type_ == type_ && condition.status == status);
    NodeCondition {
        type_: type_.into(),
        status: status.into(),
        reason: Some(reason.into()),
        message: Some(message.into()),
        last_heartbeat_time: Some(now.clone()),
        last_transition_time: before.and_then(|condition| condition.last_transition_time.clone()).or(Some(now)),
    }
}
