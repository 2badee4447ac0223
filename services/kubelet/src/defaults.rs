//! Defaults of static Pods. A Pod of the API server comes with all of them; these are the ones that the kubelet looks at
//! (its mirror Pod gets them all from the API server).

use crate::error::{Error, Result};
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, Probe};
use serde_json::Value;

/// Reads a manifest and fills in what it leaves out.
pub(crate) fn pod(manifest: Value) -> Result<Pod> {
    let kind = manifest.get("kind").and_then(Value::as_str).unwrap_or_default();
    if kind != "Pod" {
        return Err(Error::Pod(format!("a manifest holds a Pod, not a {kind:?}")));
    }
    let mut pod: Pod = serde_json::from_value(manifest).map_err(|error| Error::Pod(error.to_string()))?;
    let spec = pod.spec.as_mut().ok_or_else(|| Error::Pod("spec: Required value".into()))?;
    if spec.containers.is_empty() {
        return Err(Error::Pod("spec.containers: Required value".into()));
    }
    fill(spec);
    Ok(pod)
}

fn fill(spec: &mut PodSpec) {
    text(&mut spec.restart_policy, "Always");
    text(&mut spec.dns_policy, "ClusterFirst");
    spec.termination_grace_period_seconds.get_or_insert(30);
    spec.enable_service_links.get_or_insert(true);
    spec.security_context.get_or_insert_default();
    spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()).for_each(container);
}

fn text(field: &mut Option<String>, default: &str) {
    if field.as_deref().is_none_or(str::is_empty) {
        *field = Some(default.to_owned());
    }
}

fn container(container: &mut Container) {
    text(&mut container.termination_message_path, "/dev/termination-log");
    text(&mut container.termination_message_policy, "File");
    let image = container.image.as_deref().unwrap_or_default();
    let tag = image.rsplit('/').next().and_then(|last| last.split_once(':')).map(|(_, tag)| tag);
    let moves = !image.contains('@') && matches!(tag, None | Some("latest"));
    text(&mut container.image_pull_policy, if moves { "Always" } else { "IfNotPresent" });
    for port in container.ports.iter_mut().flatten() {
        text(&mut port.protocol, "TCP");
    }
    // A limit without a request requests as much.
    if let Some(resources) = &mut container.resources
        && let Some(limits) = &resources.limits
    {
        let requests = resources.requests.get_or_insert_default();
        for (name, amount) in limits {
            requests.entry(name.clone()).or_insert_with(|| amount.clone());
        }
    }
    let probes = [&mut container.liveness_probe, &mut container.readiness_probe, &mut container.startup_probe];
    probes.into_iter().flatten().for_each(probe);
}

fn probe(probe: &mut Probe) {
    let number = |field: &mut Option<i32>, default| {
        if field.is_none_or(|value| value == 0) {
            *field = Some(default);
        }
    };
    number(&mut probe.timeout_seconds, 1);
    number(&mut probe.period_seconds, 10);
    number(&mut probe.success_threshold, 1);
    number(&mut probe.failure_threshold, 3);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_left_out_is_filled_in() {
        let pod = pod(json!({"kind": "Pod", "spec": {"containers": [
            {"name": "a", "image": "x/y:1", "resources": {"limits": {"cpu": "1"}}, "livenessProbe": {}},
            {"name": "b", "image": "localhost:5000/y"},
        ]}}))
        .unwrap();
        let spec = pod.spec.unwrap();
        assert_eq!((spec.termination_grace_period_seconds, spec.restart_policy.as_deref()), (Some(30), Some("Always")));
        assert_eq!(spec.containers[0].image_pull_policy.as_deref(), Some("IfNotPresent"));
        assert_eq!(spec.containers[1].image_pull_policy.as_deref(), Some("Always"));
        assert_eq!(spec.containers[0].resources.as_ref().unwrap().requests.as_ref().unwrap()["cpu"].0, "1");
        assert_eq!(spec.containers[0].liveness_probe.as_ref().unwrap().period_seconds, Some(10));
        assert!(super::pod(json!({"kind": "Deployment"})).is_err());
        assert!(super::pod(json!({"kind": "Pod", "spec": {"containers": []}})).is_err());
    }
}
