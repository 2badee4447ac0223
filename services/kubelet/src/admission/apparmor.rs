//! AppArmor: which profile confines a container, and whether this machine can confine one at all.

use crate::pod::view::{self, spec};
use k8s_openapi::api::core::v1::{AppArmorProfile, Container, Pod};

/// The annotations that said it before there were fields; static Pods may still have them.
const ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Does the kernel confine by AppArmor?
pub fn is_enabled() -> bool {
    std::path::Path::new("/sys/kernel/security/apparmor").exists()
        && std::fs::read_to_string("/sys/module/apparmor/parameters/enabled").is_ok_and(|text| text.starts_with('Y'))
}

/// The profile of a container: its own, else that of its annotation, else the Pod's.
pub fn profile(pod: &Pod, container: &Container) -> Option<AppArmorProfile> {
    let own = container.security_context.as_ref().and_then(|context| context.app_armor_profile.clone());
    let annotated = || view::annotation(pod, &format!("{ANNOTATION}{}", container.name)).and_then(annotated);
    let of_pod = || spec(pod).security_context.as_ref().and_then(|context| context.app_armor_profile.clone());
    own.or_else(annotated).or_else(of_pod)
}

fn annotated(value: &str) -> Option<AppArmorProfile> {
    let of = |type_: &str, localhost_profile| AppArmorProfile { type_: type_.to_owned(), localhost_profile };
    match value {
        "runtime/default" => Some(of("RuntimeDefault", None)),
        "unconfined" => Some(of("Unconfined", None)),
        _ => value.strip_prefix("localhost/").map(|name| of("Localhost", Some(name.to_owned()))),
    }
}

/// Why a Pod may not run with its profiles.
pub fn complaint(pod: &Pod, is_enabled: bool) -> Option<String> {
    // What runs already was judged when it came.
    if view::phase(pod) != "Pending" && !view::phase(pod).is_empty() {
        return None;
    }
    let ephemeral = view::ephemeral_containers(pod);
    let all = spec(pod).containers.iter().chain(view::init_containers(pod)).chain(&ephemeral);
    let profiles: Vec<AppArmorProfile> = all.filter_map(|container| profile(pod, container)).collect();
    let of_pod = spec(pod).security_context.as_ref().and_then(|context| context.app_armor_profile.as_ref());
    if !profiles.iter().chain(of_pod).any(|profile| profile.type_ != "Unconfined") {
        return None;
    }
    if !is_enabled {
        return Some("Cannot enforce AppArmor: AppArmor is not enabled on the host".to_owned());
    }
    let is_empty = |profile: &&AppArmorProfile| {
        profile.type_ == "Localhost" && profile.localhost_profile.as_deref().unwrap_or_default().trim().is_empty()
    };
    profiles.iter().find(is_empty).map(|profile| {
        let name = profile.localhost_profile.as_deref().unwrap_or_default();
        format!("Cannot enforce AppArmor: invalid empty AppArmor profile name: \"{name}\"")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(of_pod: Option<&str>, own: Option<(&str, Option<&str>)>, annotation: Option<&str>) -> Pod {
        let mut pod = serde_json::json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}});
        if let Some(type_) = of_pod {
            pod["spec"]["securityContext"] = serde_json::json!({"appArmorProfile": {"type": type_}});
        }
        if let Some((type_, name)) = own {
            let profile = serde_json::json!({"type": type_, "localhostProfile": name});
            pod["spec"]["containers"][0]["securityContext"] = serde_json::json!({"appArmorProfile": profile});
        }
        if let Some(value) = annotation {
            pod["metadata"]["annotations"] = serde_json::json!({format!("{ANNOTATION}c"): value});
        }
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn what_can_not_be_confined_does_not_run() {
        let without = Some("Cannot enforce AppArmor: AppArmor is not enabled on the host".to_owned());
        for asks in [
            pod(Some("RuntimeDefault"), None, None),
            pod(None, Some(("Localhost", Some("k8s-deny"))), None),
            pod(None, None, Some("localhost/k8s-deny")),
        ] {
            assert_eq!(complaint(&asks, false), without);
            assert_eq!(complaint(&asks, true), None);
        }
        for free in [pod(None, None, None), pod(Some("Unconfined"), None, None), pod(None, None, Some("unconfined"))] {
            assert_eq!(complaint(&free, false), None);
        }
        assert!(complaint(&pod(None, Some(("Localhost", Some(" "))), None), true).is_some());
    }

    #[test]
    fn the_nearest_profile_counts() {
        let of = |pod: &Pod| profile(pod, &spec(pod).containers[0]).unwrap();
        let all = pod(Some("RuntimeDefault"), Some(("Unconfined", None)), Some("localhost/x"));
        assert_eq!(of(&all).type_, "Unconfined");
        let annotated = pod(Some("RuntimeDefault"), None, Some("localhost/x"));
        assert_eq!(of(&annotated).localhost_profile.as_deref(), Some("x"));
        assert_eq!(of(&pod(Some("RuntimeDefault"), None, None)).type_, "RuntimeDefault");
    }
}
