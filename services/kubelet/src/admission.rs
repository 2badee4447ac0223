//! May a new Pod run here? The scheduler has said so, but not of static Pods, and not with the newest view.

use crate::host::Allocatable;
use crate::pod::resources::pod_request;
use crate::pod::view;
use k8s_openapi::api::core::v1::Pod;
use std::sync::Arc;

/// Reason and message of a refusal.
pub fn verdict(pod: &Pod, others: &[Arc<Pod>], allocatable: &Allocatable) -> Option<(String, String)> {
    if view::is_static(pod) || view::is_terminal_phase(view::phase(pod)) || pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    // What has an address or a start time was let in before this kubelet started.
    if pod.status.as_ref().is_some_and(|status| status.start_time.is_some()) {
        return None;
    }
    let active: Vec<&Arc<Pod>> = others.iter().filter(|other| !view::is_terminal_phase(view::phase(other))).collect();
    let sum = |cpu| active.iter().map(|other| pod_request(other, cpu)).sum::<i64>();
    let checks = [
        ("pods", 1, i64::try_from(active.len()).unwrap_or(i64::MAX), allocatable.pods),
        ("cpu", pod_request(pod, true), sum(true), allocatable.milli_cpu),
        ("memory", pod_request(pod, false), sum(false), allocatable.memory),
    ];
    let (name, requested, used, capacity) =
        checks.into_iter().find(|(_, requested, used, capacity)| *requested > 0 && requested + used > *capacity)?;
    let message =
        format!("Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {capacity}");
    Some((format!("OutOf{name}"), message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(cpu: &str) -> Arc<Pod> {
        let value = serde_json::json!({"metadata": {"name": "p"}, "spec": {"containers": [
            {"name": "c", "resources": {"requests": {"cpu": cpu}}}]}});
        Arc::new(serde_json::from_value(value).unwrap())
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let node = Allocatable { milli_cpu: 2000, memory: 1 << 30, storage: 0, pods: 2 };
        assert_eq!(verdict(&pod("1"), &[pod("1")], &node), None);
        let (reason, message) = verdict(&pod("1500m"), &[pod("1")], &node).unwrap();
        assert_eq!(reason, "OutOfcpu");
        assert_eq!(message, "Node didn't have enough resource: cpu, requested: 1500, used: 1000, capacity: 2000");
        assert_eq!(verdict(&pod("0"), &[pod("0"), pod("0")], &node).unwrap().0, "OutOfpods");
    }
}
