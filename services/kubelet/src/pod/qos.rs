//! The class of service of a Pod: who is put where in the cgroup tree, and who dies first.

use super::resources;
use super::view::{self, spec};
use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use std::fmt;

/// Class of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Every container has limits of CPU and memory, equal to its requests.
    Guaranteed,
    /// Something is requested or limited.
    Burstable,
    /// Nothing is.
    BestEffort,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        })
    }
}

/// The class: what the API server wrote, else computed (for static Pods).
pub fn class(pod: &Pod) -> Class {
    match pod.status.as_ref().and_then(|status| status.qos_class.as_deref()) {
        Some("Guaranteed") => Class::Guaranteed,
        Some("Burstable") => Class::Burstable,
        Some("BestEffort") => Class::BestEffort,
        _ => compute(pod),
    }
}

fn compute(pod: &Pod) -> Class {
    let own = spec(pod).resources.as_ref();
    let all: Vec<Option<&ResourceRequirements>> = match own {
        Some(own) => vec![Some(own)],
        None => spec(pod).containers.iter().chain(view::init_containers(pod)).map(|c| c.resources.as_ref()).collect(),
    };
    let (mut any, mut guaranteed) = (false, !all.is_empty());
    for resources in all {
        for name in ["cpu", "memory"] {
            let read = |map| resources::milli(map, name).filter(|value| *value > 0);
            let limit = read(resources.and_then(|r| r.limits.as_ref()));
            let request = read(resources.and_then(|r| r.requests.as_ref())).or(limit);
            any |= limit.is_some() || request.is_some();
            guaranteed &= limit.is_some() && limit == request;
        }
    }
    match (any, guaranteed) {
        (false, _) => Class::BestEffort,
        (true, true) => Class::Guaranteed,
        (true, false) => Class::Burstable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes() {
        for (resources, class) in [
            (serde_json::json!({}), Class::BestEffort),
            (serde_json::json!({"requests": {"cpu": "0"}}), Class::BestEffort),
            (serde_json::json!({"requests": {"cpu": "1"}}), Class::Burstable),
            (serde_json::json!({"limits": {"cpu": "1", "memory": "1Mi"}}), Class::Guaranteed),
            (
                serde_json::json!({"limits": {"cpu": "1", "memory": "1Mi"}, "requests": {"cpu": "500m"}}),
                Class::Burstable,
            ),
        ] {
            let pod: Pod = serde_json::from_value(serde_json::json!({
                "spec": {"containers": [{"name": "a", "resources": resources}]}
            }))
            .unwrap();
            assert_eq!(compute(&pod), class, "{resources}");
        }
    }
}
