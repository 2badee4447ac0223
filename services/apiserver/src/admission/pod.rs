//! Walking a Pod: its containers, and what they take from Secrets.

use serde_json::Value;
use trireme_machinery::meta;

/// The annotation of a Pod that stands for a static one on a node.
pub const MIRROR: &str = "kubernetes.io/config.mirror";

/// Whether the Pod stands for a static one on a node.
#[must_use]
pub fn is_mirror(pod: &Value) -> bool {
    meta::annotation(pod, MIRROR).is_some()
}

/// The elements of a list, none if it is absent.
pub fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// The lists of containers in a Pod's spec.
pub const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// All containers of a Pod's spec, each with the list it is in.
pub fn containers(spec: &Value) -> impl Iterator<Item = (&'static str, &Value)> {
    CONTAINERS.into_iter().flat_map(move |list| items(&spec[list]).map(move |container| (list, container)))
}

/// The value of a string field, or nothing.
#[must_use]
pub fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// Whether the Pod refers to any Secret.
#[must_use]
pub fn uses_secrets(spec: &Value) -> bool {
    let environment = containers(spec).any(|(_, container)| {
        items(&container["env"]).any(|variable| variable["valueFrom"]["secretKeyRef"].is_object())
            || items(&container["envFrom"]).any(|source| source["secretRef"].is_object())
    });
    let volumes = items(&spec["volumes"]).any(|volume| {
        volume["secret"].is_object()
            || volume["azureFile"].is_object()
            || items(&volume["projected"]["sources"]).any(|source| source["secret"].is_object())
            || volume["csi"]["nodePublishSecretRef"].is_object()
            || volume.as_object().into_iter().flatten().any(|(_, source)| source["secretRef"].is_object())
    });
    environment || volumes || items(&spec["imagePullSecrets"]).next().is_some()
}
