//! Short ways to what is asked of a Pod all the time.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use std::sync::LazyLock;

static EMPTY: LazyLock<PodSpec> = LazyLock::new(PodSpec::default);

/// Annotation: where a Pod came from (`api`, `file`).
pub const CONFIG_SOURCE: &str = "kubernetes.io/config.source";
/// Annotation of a mirror Pod: the hash of the static Pod that it mirrors.
pub const CONFIG_MIRROR: &str = "kubernetes.io/config.mirror";
/// Annotation of a static Pod: the hash of its manifest.
pub const CONFIG_HASH: &str = "kubernetes.io/config.hash";
/// Annotation: when the kubelet first saw the Pod.
pub const CONFIG_SEEN: &str = "kubernetes.io/config.seen";

/// Which list of the spec a container stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// `initContainers`; sidecars are those with restartPolicy Always.
    Init,
    /// `containers`.
    Regular,
    /// `ephemeralContainers`.
    Ephemeral,
}

/// The spec; the API server lets no Pod without one in.
pub fn spec(pod: &Pod) -> &PodSpec {
    pod.spec.as_ref().unwrap_or(&EMPTY)
}

/// metadata.name
pub fn name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

/// metadata.namespace
pub fn namespace(pod: &Pod) -> &str {
    pod.metadata.namespace.as_deref().unwrap_or_default()
}

/// metadata.uid
pub fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

/// `name_namespace(uid)`: how back-off messages name a Pod.
pub fn formatted(pod: &Pod) -> String {
    format!("{}_{}({})", name(pod), namespace(pod), uid(pod))
}

/// An annotation's value.
pub fn annotation<'a>(pod: &'a Pod, key: &str) -> Option<&'a str> {
    pod.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// It comes from a manifest of this node.
pub fn is_static(pod: &Pod) -> bool {
    annotation(pod, CONFIG_SOURCE).is_some_and(|source| source != "api")
}

/// It only shows a static Pod in the API.
pub fn is_mirror(pod: &Pod) -> bool {
    annotation(pod, CONFIG_MIRROR).is_some()
}

/// spec.hostNetwork
pub fn host_network(pod: &Pod) -> bool {
    spec(pod).host_network.unwrap_or_default()
}

/// spec.initContainers
pub fn init_containers(pod: &Pod) -> &[Container] {
    spec(pod).init_containers.as_deref().unwrap_or_default()
}

/// Ephemeral containers in the shape of ordinary ones.
pub fn ephemeral_containers(pod: &Pod) -> Vec<Container> {
    let containers = spec(pod).ephemeral_containers.as_deref().unwrap_or_default();
    containers
        .iter()
        .map(|ephemeral| Container {
            name: ephemeral.name.clone(),
            image: ephemeral.image.clone(),
            image_pull_policy: ephemeral.image_pull_policy.clone(),
            command: ephemeral.command.clone(),
            args: ephemeral.args.clone(),
            env: ephemeral.env.clone(),
            env_from: ephemeral.env_from.clone(),
            working_dir: ephemeral.working_dir.clone(),
            volume_mounts: ephemeral.volume_mounts.clone(),
            security_context: ephemeral.security_context.clone(),
            stdin: ephemeral.stdin,
            stdin_once: ephemeral.stdin_once,
            tty: ephemeral.tty,
            termination_message_path: ephemeral.termination_message_path.clone(),
            termination_message_policy: ephemeral.termination_message_policy.clone(),
            ..Container::default()
        })
        .collect()
}

/// A container of any role, by name.
pub fn container(pod: &Pod, name: &str) -> Option<(Role, Container)> {
    let find = |list: &[Container]| list.iter().find(|container| container.name == name).cloned();
    find(&spec(pod).containers)
        .map(|container| (Role::Regular, container))
        .or_else(|| find(init_containers(pod)).map(|container| (Role::Init, container)))
        .or_else(|| find(&ephemeral_containers(pod)).map(|container| (Role::Ephemeral, container)))
}

/// An init container that keeps running beside the others.
pub fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// The phase that the API server knows.
pub fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// Succeeded or Failed.
pub fn is_terminal_phase(phase: &str) -> bool {
    matches!(phase, "Succeeded" | "Failed")
}

/// How long its containers may take to stop.
pub fn grace_seconds(pod: &Pod) -> i64 {
    pod.metadata
        .deletion_grace_period_seconds
        .or(spec(pod).termination_grace_period_seconds)
        .unwrap_or(super::MINIMUM_GRACE_SECONDS)
}
