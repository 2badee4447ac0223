//! May a new Pod run here? The scheduler has said so, but not of static Pods, and not with the newest view. A Pod that
//! asks to be confined in a way that this node can't do is refused, as upstream does: it would run less confined.

pub mod apparmor;
pub mod sysctls;

use crate::host::Allocatable;
use crate::pod::resources::pod_request;
use crate::pod::{security, view};
use k8s_openapi::api::core::v1::Pod;
use std::sync::Arc;
use trireme_proto::runtime::v1::SupplementalGroupsPolicy;

/// What of the node a Pod is judged by.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// What Pods may use.
    pub allocatable: &'a Allocatable,
    /// Which sysctls they may set.
    pub sysctls: &'a sysctls::Allowlist,
    /// The kernel confines by AppArmor.
    pub apparmor: bool,
    /// The runtime knows `supplementalGroupsPolicy`.
    pub groups_policy: bool,
}

/// Reason and message of a refusal.
pub fn verdict(pod: &Pod, others: &[Arc<Pod>], place: Place<'_>) -> Option<(String, String)> {
    if view::is_terminal_phase(view::phase(pod)) || pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    not_confined(pod, place).or_else(|| no_room(pod, others, place.allocatable))
}

/// A Pod may not get less confinement than it asks for. Static Pods neither.
fn not_confined(pod: &Pod, place: Place<'_>) -> Option<(String, String)> {
    let refusal = |reason: &str, message| Some((reason.to_owned(), message));
    if let Some(message) = place.sysctls.complaint(pod) {
        return refusal("SysctlForbidden", message);
    }
    if let Some(message) = apparmor::complaint(pod, place.apparmor) {
        return refusal("AppArmor", message);
    }
    if security::groups_policy(pod) == SupplementalGroupsPolicy::Strict && !place.groups_policy {
        let message = "SupplementalGroupsPolicy=Strict is not supported in this node".to_owned();
        return refusal("SupplementalGroupsPolicyNotSupported", message);
    }
    None
}

fn no_room(pod: &Pod, others: &[Arc<Pod>], allocatable: &Allocatable) -> Option<(String, String)> {
    if view::is_static(pod) {
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
        let allocatable = Allocatable { milli_cpu: 2000, memory: 1 << 30, storage: 0, pods: 2 };
        let sysctls = sysctls::Allowlist::default();
        let node = Place { allocatable: &allocatable, sysctls: &sysctls, apparmor: false, groups_policy: false };
        assert_eq!(verdict(&pod("1"), &[pod("1")], node), None);
        let (reason, message) = verdict(&pod("1500m"), &[pod("1")], node).unwrap();
        assert_eq!(reason, "OutOfcpu");
        assert_eq!(message, "Node didn't have enough resource: cpu, requested: 1500, used: 1000, capacity: 2000");
        assert_eq!(verdict(&pod("0"), &[pod("0"), pod("0")], node).unwrap().0, "OutOfpods");
    }

    #[test]
    fn what_would_run_less_confined_than_it_asks_is_refused() {
        let allocatable = Allocatable { milli_cpu: 2000, memory: 1 << 30, storage: 0, pods: 2 };
        let sysctls = sysctls::Allowlist::new("6.1.0", &[]).unwrap();
        let node = Place { allocatable: &allocatable, sysctls: &sysctls, apparmor: false, groups_policy: false };
        let able = Place { apparmor: true, groups_policy: true, ..node };
        for (context, refusal) in [
            (
                serde_json::json!({"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}),
                ("SysctlForbidden", "forbidden sysctl: \"kernel.msgmax\" not allowlisted"),
            ),
            (
                serde_json::json!({"appArmorProfile": {"type": "Localhost", "localhostProfile": "x"}}),
                ("AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host"),
            ),
            (
                serde_json::json!({"supplementalGroupsPolicy": "Strict"}),
                (
                    "SupplementalGroupsPolicyNotSupported",
                    "SupplementalGroupsPolicy=Strict is not supported in this node",
                ),
            ),
        ] {
            for source in ["api", "file"] {
                let mut pod = (*pod("1")).clone();
                pod.metadata.annotations = Some([(view::CONFIG_SOURCE.to_owned(), source.to_owned())].into());
                pod.spec.as_mut().unwrap().security_context = Some(serde_json::from_value(context.clone()).unwrap());
                let (reason, message) = verdict(&pod, &[], node).unwrap();
                assert_eq!((reason.as_str(), message.as_str()), refusal);
                assert_eq!(verdict(&pod, &[], able).is_none(), refusal.0 != "SysctlForbidden");
            }
        }
    }
}
