//! The downward API: fields of a Pod and resources of its containers, as text.

use super::resources::{milli, whole};
use super::view::{self, spec};
use crate::error::{Error, Result};
use k8s_openapi::api::core::v1::{Container, ObjectFieldSelector, Pod, ResourceFieldSelector, ResourceRequirements};
use std::collections::BTreeMap;
use trireme_machinery::quantity::Quantity;

/// What of the node a field may ask for.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// Addresses of the node.
    pub node_ips: Vec<String>,
    /// Addresses of the Pod, once it has any.
    pub pod_ips: Vec<String>,
    /// Allocatable CPU in thousandths: the default of a CPU limit.
    pub node_milli_cpu: i64,
    /// Allocatable memory in bytes: the default of a memory limit.
    pub node_memory: i64,
    /// Allocatable ephemeral storage in bytes.
    pub node_storage: i64,
}

/// A field by its path.
pub fn field(pod: &Pod, selector: &ObjectFieldSelector, around: &Surroundings) -> Result<String> {
    let meta = &pod.metadata;
    let path = selector.field_path.as_str();
    let keyed = |map: Option<&BTreeMap<String, String>>, key: &str| {
        Ok(map.and_then(|map| map.get(key)).cloned().unwrap_or_default())
    };
    if let Some(key) = subscript(path, "metadata.labels") {
        return keyed(meta.labels.as_ref(), key);
    }
    if let Some(key) = subscript(path, "metadata.annotations") {
        return keyed(meta.annotations.as_ref(), key);
    }
    let owned = |text: Option<&str>| Ok(text.unwrap_or_default().to_owned());
    match path {
        "metadata.name" => owned(meta.name.as_deref()),
        "metadata.namespace" => owned(meta.namespace.as_deref()),
        "metadata.uid" => owned(meta.uid.as_deref()),
        "metadata.labels" => Ok(lines(meta.labels.as_ref())),
        "metadata.annotations" => Ok(lines(meta.annotations.as_ref())),
        "spec.nodeName" => owned(spec(pod).node_name.as_deref()),
        "spec.serviceAccountName" => owned(spec(pod).service_account_name.as_deref()),
        "status.hostIP" => owned(around.node_ips.first().map(String::as_str)),
        "status.hostIPs" => Ok(around.node_ips.join(",")),
        "status.podIP" => owned(around.pod_ips.first().map(String::as_str)),
        "status.podIPs" => Ok(around.pod_ips.join(",")),
        other => Err(Error::Pod(format!("unsupported fieldPath: {other}"))),
    }
}

fn subscript<'a>(path: &'a str, field: &str) -> Option<&'a str> {
    path.strip_prefix(field)?.strip_prefix("['")?.strip_suffix("']")
}

/// `key="value"` lines, sorted, quoted as Go quotes.
fn lines(map: Option<&BTreeMap<String, String>>) -> String {
    let lines: Vec<String> = map.into_iter().flatten().map(|(key, value)| format!("{key}={}", quote(value))).collect();
    lines.join("\n")
}

fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => quoted.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A container's request or limit, divided and rounded up.
pub fn resource(
    pod: &Pod,
    container: &Container,
    selector: &ResourceFieldSelector,
    around: &Surroundings,
) -> Result<String> {
    let named = selector.container_name.as_deref().filter(|name| !name.is_empty());
    let found;
    let container = match named {
        Some(name) => {
            found = view::container(pod, name).ok_or_else(|| Error::Pod(format!("container {name} not found")))?.1;
            &found
        }
        None => container,
    };
    let empty = ResourceRequirements::default();
    let resources = container.resources.as_ref().unwrap_or(&empty);
    let (limits, requests) = (resources.limits.as_ref(), resources.requests.as_ref());
    let divisor = selector.divisor.as_ref().map(|divisor| divisor.0.as_str()).filter(|text| !text.is_empty());
    let divisor = match divisor {
        Some(text) => Quantity::parse(text).map_err(|error| Error::Pod(format!("divisor {text}: {error}")))?,
        None => Quantity::parse("1").map_err(|error| Error::Pod(error.to_string()))?,
    };
    let cpu = |milli: i64| {
        let by = divisor.milli_value().max(1);
        milli.div_euclid(by) + i64::from(milli.rem_euclid(by) != 0)
    };
    let bytes = |value: i64| {
        let by = divisor.value().max(1);
        value.div_euclid(by) + i64::from(value.rem_euclid(by) != 0)
    };
    let positive = |value: Option<i64>| value.filter(|value| *value > 0);
    let value = match selector.resource.as_str() {
        "limits.cpu" => cpu(positive(milli(limits, "cpu")).unwrap_or(around.node_milli_cpu)),
        "limits.memory" => bytes(positive(whole(limits, "memory")).unwrap_or(around.node_memory)),
        "limits.ephemeral-storage" => {
            bytes(positive(whole(limits, "ephemeral-storage")).unwrap_or(around.node_storage))
        }
        "requests.cpu" => cpu(milli(requests, "cpu").unwrap_or_default()),
        "requests.memory" => bytes(whole(requests, "memory").unwrap_or_default()),
        "requests.ephemeral-storage" => bytes(whole(requests, "ephemeral-storage").unwrap_or_default()),
        other => {
            if let Some(name) = other.strip_prefix("limits.").filter(|name| name.starts_with("hugepages-")) {
                bytes(whole(limits, name).unwrap_or_default())
            } else if let Some(name) = other.strip_prefix("requests.").filter(|name| name.starts_with("hugepages-")) {
                bytes(whole(requests, name).unwrap_or_default())
            } else {
                return Err(Error::Pod(format!("unsupported container resource : {other}")));
            }
        }
    };
    Ok(value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Pod {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": "p", "labels": {"b": "x\"y", "a.b/c": "1"}},
            "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1500m"}, "requests": {"memory": "100"}}}]},
        }))
        .unwrap()
    }

    fn ask(path: &str) -> String {
        let selector = ObjectFieldSelector { api_version: None, field_path: path.into() };
        field(&pod(), &selector, &Surroundings { pod_ips: vec!["1.2.3.4".into()], ..Default::default() }).unwrap()
    }

    #[test]
    fn fields_of_a_pod() {
        assert_eq!(ask("metadata.name"), "p");
        assert_eq!(ask("metadata.labels['a.b/c']"), "1");
        assert_eq!(ask("metadata.labels['none']"), "");
        assert_eq!(ask("metadata.labels"), "a.b/c=\"1\"\nb=\"x\\\"y\"");
        assert_eq!(ask("status.podIP"), "1.2.3.4");
    }

    #[test]
    fn resources_are_rounded_up_and_defaulted() {
        let pod = pod();
        let container = &pod.spec.as_ref().unwrap().containers[0];
        let around = Surroundings { node_memory: 4096, ..Default::default() };
        for (name, divisor, value) in [
            ("limits.cpu", None, "2"),
            ("limits.cpu", Some("1m"), "1500"),
            ("limits.memory", Some("1Ki"), "4"),
            ("requests.memory", Some("64"), "2"),
            ("requests.cpu", None, "0"),
        ] {
            let selector = ResourceFieldSelector {
                resource: name.into(),
                divisor: divisor.map(|d: &str| k8s_openapi::apimachinery::pkg::api::resource::Quantity(d.into())),
                container_name: None,
            };
            assert_eq!(resource(&pod, container, &selector, &around).unwrap(), value, "{name}");
        }
    }
}
