//! What a pod or a volume refers to.

use serde_json::Value;

const MIRROR: &str = "kubernetes.io/config.mirror";

/// Kinds of objects that pods refer to by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reference {
    Secret,
    ConfigMap,
    Claim,
    ResourceClaim,
    ServiceAccount,
}

/// Whether the pod refers to the object of this kind and name in its namespace. A mirror pod refers to nothing: a
/// node makes it, and must not gain by it.
pub(super) fn pod_refers(pod: &Value, what: Reference, name: &str) -> bool {
    if pod.pointer("/metadata/annotations").is_some_and(|all| all.get(MIRROR).is_some()) {
        return false;
    }
    let spec = &pod["spec"];
    match what {
        Reference::ServiceAccount => spec["serviceAccountName"] == name,
        Reference::Secret => {
            items(&spec["imagePullSecrets"]).any(|secret| secret["name"] == name)
                || environment(spec)
                    .any(|source| source["secretKeyRef"]["name"] == name || source["secretRef"]["name"] == name)
                || volumes(spec).any(|volume| volume_secret(volume, name))
        }
        Reference::ConfigMap => {
            environment(spec)
                .any(|source| source["configMapKeyRef"]["name"] == name || source["configMapRef"]["name"] == name)
                || volumes(spec).any(|volume| {
                    volume["configMap"]["name"] == name
                        || items(&volume["projected"]["sources"]).any(|source| source["configMap"]["name"] == name)
                })
        }
        Reference::Claim => volumes(spec).any(|volume| {
            volume["persistentVolumeClaim"]["claimName"] == name
                || (volume["ephemeral"].is_object() && is_joined(name, &pod["metadata"]["name"], &volume["name"]))
        }),
        Reference::ResourceClaim => {
            let statuses = items(&pod["status"]["resourceClaimStatuses"]);
            items(&spec["resourceClaims"]).chain(statuses).any(|claim| claim["resourceClaimName"] == name)
                || pod["status"]["extendedResourceClaimStatus"]["resourceClaimName"] == name
        }
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn volumes(spec: &Value) -> impl Iterator<Item = &Value> {
    items(&spec["volumes"])
}

/// Where the containers' environments come from: `valueFrom` of single variables, and whole sources.
fn environment(spec: &Value) -> impl Iterator<Item = &Value> {
    let containers =
        ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(|list| items(&spec[list]));
    containers.flat_map(|container| {
        let single = items(&container["env"]).map(|variable| &variable["valueFrom"]);
        single.chain(items(&container["envFrom"]))
    })
}

fn volume_secret(volume: &Value, name: &str) -> bool {
    volume["secret"]["secretName"] == name
        || volume["azureFile"]["secretName"] == name
        || items(&volume["projected"]["sources"]).any(|source| source["secret"]["name"] == name)
        || volume["csi"]["nodePublishSecretRef"]["name"] == name
        || volume.as_object().into_iter().flatten().any(|(_, source)| source["secretRef"]["name"] == name)
}

/// The claim of an ephemeral volume is called `<pod>-<volume>`.
fn is_joined(name: &str, pod: &Value, volume: &Value) -> bool {
    let (Some(pod), Some(volume)) = (pod.as_str(), volume.as_str()) else { return false };
    name.strip_prefix(pod).and_then(|rest| rest.strip_prefix('-')) == Some(volume)
}

/// Whether a volume refers to this secret, and the kubelet (not only a controller) needs it.
pub(super) fn volume_refers(volume: &Value, namespace: &str, name: &str) -> bool {
    let spec = &volume["spec"];
    let claim_namespace = &spec["claimRef"]["namespace"];
    let is = |reference: &Value| {
        let own = if reference["namespace"].is_string() { &reference["namespace"] } else { claim_namespace };
        reference["name"] == name && own == namespace
    };
    let csi = &spec["csi"];
    is(&csi["nodePublishSecretRef"])
        || is(&csi["nodeStageSecretRef"])
        || is(&csi["nodeExpandSecretRef"])
        || spec.as_object().into_iter().flatten().any(|(source, value)| source != "claimRef" && is(&value["secretRef"]))
        || (spec["azureFile"]["secretName"] == name
            && spec["azureFile"]["secretNamespace"].as_str().unwrap_or(claim_namespace.as_str().unwrap_or_default())
                == namespace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn finds_what_a_pod_needs() {
        let pod = json!({
            "metadata": {"name": "web"},
            "spec": {
                "serviceAccountName": "default",
                "imagePullSecrets": [{"name": "pull"}],
                "containers": [{
                    "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "env", "key": "k"}}}],
                    "envFrom": [{"configMapRef": {"name": "all"}}],
                }],
                "volumes": [
                    {"name": "t", "projected": {"sources": [{"configMap": {"name": "kube-root-ca.crt"}}]}},
                    {"name": "d", "ephemeral": {"volumeClaimTemplate": {}}},
                    {"name": "c", "cephfs": {"secretRef": {"name": "ceph"}}},
                ],
            },
        });
        for secret in ["pull", "env", "ceph"] {
            assert!(pod_refers(&pod, Reference::Secret, secret), "{secret}");
        }
        for map in ["all", "kube-root-ca.crt"] {
            assert!(pod_refers(&pod, Reference::ConfigMap, map), "{map}");
        }
        assert!(pod_refers(&pod, Reference::Claim, "web-d"));
        assert!(pod_refers(&pod, Reference::ServiceAccount, "default"));
        assert!(!pod_refers(&pod, Reference::Secret, "other"));
        let mut mirror = pod.clone();
        mirror["metadata"]["annotations"] = json!({MIRROR: "x"});
        assert!(!pod_refers(&mirror, Reference::Secret, "pull"), "a mirror pod gains its node nothing");
    }
}
