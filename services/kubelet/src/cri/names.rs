//! Labels and annotations by which sandboxes and containers are recognised. They are upstream's, so that crictl shows
//! Pod names and one kubelet can take over what another one started.

use k8s_openapi::api::core::v1::{Container, ContainerPort, LifecycleHandler, Pod};
use std::collections::HashMap;

/// Label: the Pod's name.
pub const POD_NAME: &str = "io.kubernetes.pod.name";
/// Label: the Pod's namespace.
pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
/// Label: the Pod's uid.
pub const POD_UID: &str = "io.kubernetes.pod.uid";
/// Label: the container's name within the Pod.
pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";

const HASH: &str = "io.kubernetes.container.hash";
const RESTART_COUNT: &str = "io.kubernetes.container.restartCount";
const TERMINATION_PATH: &str = "io.kubernetes.container.terminationMessagePath";
const TERMINATION_POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";
const PRE_STOP: &str = "io.kubernetes.container.preStopHandler";
const PORTS: &str = "io.kubernetes.container.ports";
const DELETION_GRACE: &str = "io.kubernetes.pod.deletionGracePeriod";
const TERMINATION_GRACE: &str = "io.kubernetes.pod.terminationGracePeriod";

/// The selector for all that belongs to a Pod.
pub fn of_pod(uid: &str) -> HashMap<String, String> {
    HashMap::from([(POD_UID.to_owned(), uid.to_owned())])
}

fn identity(pod: &Pod) -> [(String, String); 3] {
    let meta = &pod.metadata;
    [
        (POD_NAME.to_owned(), meta.name.clone().unwrap_or_default()),
        (POD_NAMESPACE.to_owned(), meta.namespace.clone().unwrap_or_default()),
        (POD_UID.to_owned(), meta.uid.clone().unwrap_or_default()),
    ]
}

/// Labels of a sandbox: the Pod's own and its identity.
pub fn sandbox_labels(pod: &Pod) -> HashMap<String, String> {
    let mut labels: HashMap<String, String> = pod.metadata.labels.clone().unwrap_or_default().into_iter().collect();
    labels.extend(identity(pod));
    labels
}

/// Annotations of a sandbox: the Pod's own.
pub fn sandbox_annotations(pod: &Pod) -> HashMap<String, String> {
    pod.metadata.annotations.clone().unwrap_or_default().into_iter().collect()
}

/// Labels of a container.
pub fn container_labels(pod: &Pod, container: &Container) -> HashMap<String, String> {
    let mut labels = HashMap::from(identity(pod));
    labels.insert(CONTAINER_NAME.to_owned(), container.name.clone());
    labels
}

/// Annotations of a container: what is needed to judge and to stop it when the Pod itself is no longer known.
pub fn container_annotations(pod: &Pod, container: &Container, restart_count: u32) -> HashMap<String, String> {
    let mut all = HashMap::from([
        (HASH.to_owned(), format!("{:x}", container_hash(container))),
        (RESTART_COUNT.to_owned(), restart_count.to_string()),
        (TERMINATION_PATH.to_owned(), container.termination_message_path.clone().unwrap_or_default()),
        (TERMINATION_POLICY.to_owned(), container.termination_message_policy.clone().unwrap_or_default()),
    ]);
    if let Some(seconds) = pod.metadata.deletion_grace_period_seconds {
        all.insert(DELETION_GRACE.to_owned(), seconds.to_string());
    }
    if let Some(seconds) = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds) {
        all.insert(TERMINATION_GRACE.to_owned(), seconds.to_string());
    }
    if let Some(handler) = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref())
        && let Ok(json) = serde_json::to_string(handler)
    {
        all.insert(PRE_STOP.to_owned(), json);
    }
    if let Some(ports) = container.ports.as_ref().filter(|ports| !ports.is_empty())
        && let Ok(json) = serde_json::to_string(ports)
    {
        all.insert(PORTS.to_owned(), json);
    }
    all
}

/// What is read back from a container's annotations.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Annotated {
    /// Of the spec that the container was made from.
    pub hash: Option<u64>,
    /// How often the container had been restarted when this one was made.
    pub restart_count: u32,
    /// Where the container may write its last words.
    pub termination_message_path: String,
    /// `File` or `FallbackToLogsOnError`.
    pub termination_message_policy: String,
    /// The Pod's grace period.
    pub termination_grace_seconds: Option<i64>,
    /// The grace period asked for when the Pod was deleted.
    pub deletion_grace_seconds: Option<i64>,
    /// To be run before the container is stopped.
    pub pre_stop: Option<LifecycleHandler>,
    /// For handlers that name a port.
    pub ports: Vec<ContainerPort>,
}

impl Annotated {
    /// Reads what [`container_annotations`] wrote; what is missing or broken is left at its default.
    pub fn read(annotations: &HashMap<String, String>) -> Self {
        let get = |key: &str| annotations.get(key).map(String::as_str);
        Self {
            hash: get(HASH).and_then(|hex| u64::from_str_radix(hex, 16).ok()),
            restart_count: get(RESTART_COUNT).and_then(|n| n.parse().ok()).unwrap_or_default(),
            termination_message_path: get(TERMINATION_PATH).unwrap_or_default().to_owned(),
            termination_message_policy: get(TERMINATION_POLICY).unwrap_or_default().to_owned(),
            termination_grace_seconds: get(TERMINATION_GRACE).and_then(|n| n.parse().ok()),
            deletion_grace_seconds: get(DELETION_GRACE).and_then(|n| n.parse().ok()),
            pre_stop: get(PRE_STOP).and_then(|json| serde_json::from_str(json).ok()),
            ports: get(PORTS).and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default(),
        }
    }
}

/// A container is made anew when this changes: of a running Pod only images can change.
pub fn container_hash(container: &Container) -> u64 {
    let mut hash = 0x811c_9dc5_u32;
    for byte in container.name.bytes().chain([0]).chain(container.image.as_deref().unwrap_or_default().bytes()) {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    u64::from(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_survive_the_runtime() {
        let pod: Pod = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "a", "namespace": "b", "uid": "c"},
            "spec": {"terminationGracePeriodSeconds": 7, "containers": [{"name": "x", "image": "i",
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                "lifecycle": {"preStop": {"exec": {"command": ["true"]}}}}]},
        }))
        .unwrap();
        let container = &pod.spec.as_ref().unwrap().containers[0];
        let read = Annotated::read(&container_annotations(&pod, container, 3));
        assert_eq!(read.hash, Some(container_hash(container)));
        assert_eq!((read.restart_count, read.termination_grace_seconds), (3, Some(7)));
        assert!(read.pre_stop.unwrap().exec.is_some());
    }
}
