//! May a container that ended run again?

use super::view::{self, spec};
use crate::cri::state::{PodState, Stage};
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

/// By the policy alone: the container's own rules, its policy, the Pod's policy.
pub fn restarts_after(container: &Container, spec: &PodSpec, exit_code: i32) -> bool {
    let by_policy = |policy: &str| match policy {
        "Never" => false,
        "OnFailure" => exit_code != 0,
        _ => true,
    };
    let Some(policy) = container.restart_policy.as_deref() else {
        return by_policy(spec.restart_policy.as_deref().unwrap_or("Always"));
    };
    let rules = container.restart_policy_rules.as_deref().unwrap_or_default();
    let matching = rules.iter().find(|rule| {
        rule.exit_codes.as_ref().is_some_and(|codes| {
            let listed = codes.values.as_deref().unwrap_or_default().contains(&exit_code);
            match codes.operator.as_str() {
                "In" => listed,
                "NotIn" => !listed,
                _ => false,
            }
        })
    });
    match matching {
        Some(rule) => rule.action == "Restart",
        None => by_policy(policy),
    }
}

/// The Pod's policy lets it go on after a failure.
pub fn on_failure(pod: &Pod) -> bool {
    spec(pod).restart_policy.as_deref() != Some("Never")
}

/// Should the container be started now, given what the runtime has of it?
pub fn is_due(pod: &Pod, container: &Container, state: &PodState) -> bool {
    if pod.metadata.deletion_timestamp.is_some() {
        return false;
    }
    match state.latest(&container.name) {
        None => true,
        Some(latest) => match latest.stage {
            Stage::Running => false,
            Stage::Unknown | Stage::Created => true,
            Stage::Exited => restarts_after(container, spec(pod), latest.exit_code),
        },
    }
}

/// A regular container stands in the newest sandbox: then all init containers are done.
pub fn is_initialized(pod: &Pod, state: &PodState) -> bool {
    spec(pod).containers.iter().any(|container| state.active(&container.name).is_some())
}

/// A regular container was ever made.
pub fn has_regular_container(pod: &Pod, state: &PodState) -> bool {
    spec(pod).containers.iter().any(|container| state.latest(&container.name).is_some())
}

/// Ended with code 0.
pub fn has_succeeded(container: &Container, state: &PodState) -> bool {
    state.latest(&container.name).is_some_and(|latest| latest.stage == Stage::Exited && latest.exit_code == 0)
}

/// An init container did not do its work.
pub fn init_has_failed(stage: Stage, exit_code: i32) -> bool {
    match stage {
        Stage::Exited => exit_code != 0,
        Stage::Unknown => true,
        Stage::Created | Stage::Running => false,
    }
}

/// Init containers that run to their end, in order.
pub fn is_plain_init(container: &Container) -> bool {
    !view::is_sidecar(container)
}
