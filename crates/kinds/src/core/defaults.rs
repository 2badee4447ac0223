//! Defaults of the types of the core group that many kinds share: the parts of a Pod, volumes, probes.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};
use trireme_machinery::quantity::Quantity;
use trireme_machinery::schema::DefaultFn;

use crate::defaults::{Object, absent, empty, ensure, fill_from, items, object, text};

/// Type and defaults.
pub(crate) const DEFAULTS: &[(&str, DefaultFn)] = &[
    ("core.v1.Pod", pod),
    ("core.v1.PodSpec", pod_spec),
    ("core.v1.PodStatus", pod_status),
    ("core.v1.Container", container),
    ("core.v1.EphemeralContainer", container),
    ("core.v1.Volume", volume),
    ("core.v1.Probe", probe),
    ("core.v1.HTTPGetAction", http_get),
    ("core.v1.SecretVolumeSource", file_mode),
    ("core.v1.ConfigMapVolumeSource", file_mode),
    ("core.v1.DownwardAPIVolumeSource", file_mode),
    ("core.v1.ProjectedVolumeSource", file_mode),
    ("core.v1.ServiceAccountTokenProjection", |o| absent(o, "expirationSeconds", 3600)),
    ("core.v1.ObjectFieldSelector", |o| empty(o, "apiVersion", "v1")),
    ("core.v1.HostPathVolumeSource", |o| absent(o, "type", "")),
    ("core.v1.PersistentVolumeClaimSpec", |o| absent(o, "volumeMode", "Filesystem")),
    ("core.v1.PersistentVolumeClaimStatus", |_| {}),
    ("core.v1.NodeStatus", node_status),
    ("core.v1.NamespaceStatus", |o| empty(o, "phase", "Active")),
    ("core.v1.Namespace", namespace),
    ("core.v1.Service", super::service::defaults),
    ("core.v1.Secret", |o| empty(o, "type", "Opaque")),
    ("core.v1.EndpointPort", |o| empty(o, "protocol", "TCP")),
    ("core.v1.PersistentVolume", persistent_volume),
    ("core.v1.PersistentVolumeClaim", persistent_volume_claim),
    ("core.v1.ReplicationController", replication_controller),
    ("core.v1.LimitRangeItem", limit_range_item),
    ("core.v1.PodLogOptions", |o| absent(o, "stream", "All")),
    ("v1.ResourceList", resource_list),
];

fn pod(pod: &mut Object) {
    let Some(spec) = ensure(pod, "spec") else { return };
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|s| s < 0) {
        spec.insert("terminationGracePeriodSeconds".to_owned(), 1.into());
    }
    absent(spec, "enableServiceLinks", true);
    let host_network = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for list in ["containers", "initContainers"] {
        for container in items(spec, list) {
            requests_from_limits(container);
            if host_network {
                for port in items(container, "ports") {
                    if let Some(number) = port.get("containerPort").cloned() {
                        empty(port, "hostPort", number);
                    }
                }
            }
        }
    }
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for container in items(spec, list) {
            http_protocols(container);
        }
    }
}

fn requests_from_limits(container: &mut Object) {
    let Some(resources) = object(container, "resources") else { return };
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    if let Some(requests) = ensure(resources, "requests") {
        fill_from(requests, &limits);
    }
}

fn http_protocols(container: &mut Object) {
    let set = |handler: Option<&mut Object>| {
        if let Some(get) = handler.and_then(|h| object(h, "httpGet")) {
            absent(get, "protocol", "HTTP1");
        }
    };
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        set(object(container, probe));
    }
    if let Some(lifecycle) = object(container, "lifecycle") {
        set(object(lifecycle, "postStart"));
        set(object(lifecycle, "preStop"));
    }
}

fn pod_spec(spec: &mut Object) {
    // The old name of the field and the new one say the same.
    let account = match text(spec, "serviceAccountName") {
        "" => text(spec, "serviceAccount"),
        name => name,
    };
    let account = account.to_owned();
    if !account.is_empty() {
        spec.insert("serviceAccountName".to_owned(), account.clone().into());
        spec.insert("serviceAccount".to_owned(), account.into());
    }
    empty(spec, "dnsPolicy", "ClusterFirst");
    empty(spec, "restartPolicy", "Always");
    absent(spec, "securityContext", Object::new());
    absent(spec, "terminationGracePeriodSeconds", 30);
    empty(spec, "schedulerName", "default-scheduler");
}

fn pod_status(status: &mut Object) {
    let ip = text(status, "podIP").to_owned();
    let first = status.get("podIPs").and_then(|ips| ips[0]["ip"].as_str()).unwrap_or_default().to_owned();
    match (ip.is_empty(), first.is_empty()) {
        (false, _) if ip != first => {
            status.insert("podIPs".to_owned(), json!([{"ip": ip}]));
        }
        (true, false) => {
            status.insert("podIP".to_owned(), first.into());
        }
        _ => {}
    }
}

fn container(container: &mut Object) {
    let policy = pull_policy(text(container, "image"));
    empty(container, "imagePullPolicy", policy);
    empty(container, "terminationMessagePath", "/dev/termination-log");
    empty(container, "terminationMessagePolicy", "File");
}

/// An image without a tag or with `latest` is pulled always.
fn pull_policy(image: &str) -> &'static str {
    if tag(image).as_deref() == Some("latest") { "Always" } else { "IfNotPresent" }
}

/// The tag of an image reference: `latest` if it names neither tag nor digest, nothing if it is no reference.
fn tag(image: &str) -> Option<String> {
    static REFERENCE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let domain = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])";
        let host = format!(r"(?:{domain}(?:\.{domain})*|\[(?:[a-fA-F0-9:]+)\])(?::[0-9]+)?");
        let part = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*";
        let name = format!("(?:{host}/)?{part}(?:/{part})*");
        let digest = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}";
        Regex::new(&format!(r"^{name}(?::(\w[\w.-]{{0,127}}))?(@{digest})?$")).ok()
    });
    let found = REFERENCE.as_ref()?.captures(image)?;
    // 64 hexadecimal digits alone are an identifier, no name.
    if image.len() == 64 && image.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    match (found.get(1), found.get(2)) {
        (Some(tag), _) => Some(tag.as_str().to_owned()),
        (None, Some(_)) => Some(String::new()),
        (None, None) => Some("latest".to_owned()),
    }
}

fn volume(volume: &mut Object) {
    if !volume.iter().any(|(key, source)| key != "name" && !source.is_null()) {
        volume.insert("emptyDir".to_owned(), Object::new().into());
    }
    if let Some(image) = object(volume, "image") {
        let policy = pull_policy(text(image, "reference"));
        empty(image, "pullPolicy", policy);
    }
}

fn probe(probe: &mut Object) {
    empty(probe, "timeoutSeconds", 1);
    empty(probe, "periodSeconds", 10);
    empty(probe, "successThreshold", 1);
    empty(probe, "failureThreshold", 3);
}

fn http_get(action: &mut Object) {
    empty(action, "path", "/");
    empty(action, "scheme", "HTTP");
}

fn file_mode(source: &mut Object) {
    absent(source, "defaultMode", 0o644);
}

fn namespace(namespace: &mut Object) {
    let Some(metadata) = object(namespace, "metadata") else { return };
    let name = text(metadata, "name").to_owned();
    if !name.is_empty()
        && let Some(labels) = ensure(metadata, "labels")
    {
        labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
    }
    ensure(namespace, "status");
}

fn node_status(status: &mut Object) {
    if let Some(capacity) = status.get("capacity").cloned() {
        absent(status, "allocatable", capacity);
    }
}

fn persistent_volume(volume: &mut Object) {
    if let Some(status) = ensure(volume, "status") {
        empty(status, "phase", "Pending");
    }
    if let Some(spec) = ensure(volume, "spec") {
        empty(spec, "persistentVolumeReclaimPolicy", "Retain");
        absent(spec, "volumeMode", "Filesystem");
    }
}

fn persistent_volume_claim(claim: &mut Object) {
    if let Some(status) = ensure(claim, "status") {
        empty(status, "phase", "Pending");
    }
}

fn replication_controller(controller: &mut Object) {
    let labels = controller.get("spec").and_then(|s| s["template"]["metadata"]["labels"].as_object()).cloned();
    let Some(labels) = labels.filter(|l| !l.is_empty()) else { return };
    if let Some(spec) = object(controller, "spec") {
        empty(spec, "selector", labels.clone());
    }
    if let Some(metadata) = object(controller, "metadata") {
        empty(metadata, "labels", labels);
    }
}

fn limit_range_item(item: &mut Object) {
    if text(item, "type") != "Container" {
        return;
    }
    let map = |item: &Object, key: &str| item.get(key).and_then(Value::as_object).cloned().unwrap_or_default();
    let mut limits = map(item, "default");
    fill_from(&mut limits, &map(item, "max"));
    let mut requests = map(item, "defaultRequest");
    fill_from(&mut requests, &limits);
    fill_from(&mut requests, &map(item, "min"));
    for (key, value) in [("default", limits), ("defaultRequest", requests)] {
        if !value.is_empty() {
            item.insert(key.to_owned(), value.into());
        }
    }
}

/// Amounts finer than a thousandth are rounded up.
fn resource_list(list: &mut Object) {
    for value in list.values_mut() {
        let Some(quantity) = value.as_str().filter(|t| t.ends_with(['n', 'u'])).and_then(|t| Quantity::parse(t).ok())
        else {
            continue;
        };
        *value = Quantity::from_milli(quantity.milli_value(), quantity.format()).to_string().into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_decides_the_pull_policy() {
        assert_eq!(tag("nginx").as_deref(), Some("latest"));
        assert_eq!(tag("registry.example:5000/echo:1").as_deref(), Some("1"));
        assert_eq!(tag("localhost:5000/a/b").as_deref(), Some("latest"));
        assert_eq!(tag(&format!("echo@sha256:{}", "a".repeat(64))).as_deref(), Some(""));
        assert_eq!(tag("Bad_Value!"), None);
        assert_eq!(tag(""), None);
        assert_eq!(pull_policy("UPPER"), "IfNotPresent");
    }
}
