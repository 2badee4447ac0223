//! NodeRestriction: a kubelet writes about its own Node, its own Lease and the pods bound to it, and about nothing else.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use trireme_kinds::Kind;
use trireme_machinery::meta;
use trireme_machinery::status::Status;

use super::node_audiences::Audiences;
use super::pod::{self, items, text};
use super::{Attributes, Operation, Plugin};
use crate::auth::node::LEASE_NAMESPACE;
use crate::auth::user::quoted;
use crate::pipeline::Objects;

/// The plugin.
pub struct NodeRestriction {
    objects: Arc<dyn Objects>,
    pods: Arc<Kind>,
    nodes: Arc<Kind>,
    audiences: Audiences,
}

impl NodeRestriction {
    /// Reads `pods` and `nodes` from the cache.
    #[must_use]
    pub fn new(objects: Arc<dyn Objects>, pods: Arc<Kind>, nodes: Arc<Kind>, audiences: Audiences) -> Self {
        Self { objects, pods, nodes, audiences }
    }

    fn pod(&self, namespace: &str, name: &str) -> Result<Value, Status> {
        let found = self.objects.reader().get(&self.pods, namespace, name);
        found.map(|pod| pod.value()).ok_or_else(|| Status::not_found(&self.pods.group_resource(), name))
    }

    fn pods(&self, node: &str, a: &Attributes<'_>) -> Result<(), Status> {
        let me = quoted(node);
        match (a.subresource, a.operation) {
            ("", Operation::Create) => self.mirror_pod(node, a),
            ("", Operation::Delete) => {
                let pod = self.pod(a.namespace, a.name)?;
                own(&pod, node, || {
                    a.forbidden(format!("node {me} can only delete pods with spec.nodeName set to itself"))
                })
            }
            ("", operation) => Err(a.forbidden(format!(
                "unexpected operation {}, node {me} can only create and delete mirror pods",
                quoted(operation.as_str())
            ))),
            ("status", Operation::Update) => {
                let old = a.old.unwrap_or(&Value::Null);
                own(old, node, || {
                    a.forbidden(format!(
                        "node {me} can only update pod status for pods with spec.nodeName set to itself"
                    ))
                })?;
                if meta::labels(old) != meta::labels(a.object()) {
                    return Err(a.forbidden(format!("node {me} cannot update labels through pod status")));
                }
                if old["status"]["resourceClaimStatuses"] != a.object()["status"]["resourceClaimStatuses"] {
                    return Err(a.forbidden(format!("node {me} cannot update resource claim statues")));
                }
                Ok(())
            }
            ("eviction", Operation::Create) => {
                let name = if a.name.is_empty() { meta::name(a.object()) } else { a.name };
                let pod = self.pod(a.namespace, name)?;
                own(&pod, node, || {
                    a.forbidden(format!("node {node} can only evict pods with spec.nodeName set to itself"))
                })
            }
            ("status" | "eviction", operation) => {
                Err(a.forbidden(format!("unexpected operation {}", quoted(operation.as_str()))))
            }
            (other, _) => Err(a.forbidden(format!(
                "unexpected pod subresource {}, only 'status' and 'eviction' are allowed",
                quoted(other)
            ))),
        }
    }

    fn mirror_pod(&self, node: &str, a: &Attributes<'_>) -> Result<(), Status> {
        let me = quoted(node);
        let pod = a.object();
        if !pod::is_mirror(pod) {
            let annotation = quoted(pod::MIRROR);
            return Err(a.forbidden(format!(
                "pod does not have {annotation} annotation, node {me} can only create mirror pods"
            )));
        }
        own(pod, node, || a.forbidden(format!("node {me} can only create pods with spec.nodeName set to itself")))?;
        let owners: Vec<_> = meta::owner_references(pod).collect();
        let [owner] = owners.as_slice() else {
            let how = if owners.is_empty() { "an owner reference" } else { "a single owner reference" };
            return Err(a.forbidden(format!("node {me} can only create pods with {how} set to itself")));
        };
        if owner.api_version != "v1" || owner.kind != "Node" || owner.name != node {
            return Err(a.forbidden(format!("node {me} can only create pods with an owner reference set to itself")));
        }
        let reference = &pod["metadata"]["ownerReferences"][0];
        if reference["controller"] != true {
            return Err(
                a.forbidden(format!("node {me} can only create pods with a controller owner reference set to itself"))
            );
        }
        if reference["blockOwnerDeletion"] == true {
            return Err(a.forbidden(format!("node {me} must not set blockOwnerDeletion on an owner reference")));
        }
        let known = self.objects.reader().get(&self.nodes, "", node);
        let known = known.ok_or_else(|| Status::not_found(&self.nodes.group_resource(), node))?;
        if *known.uid != *owner.uid {
            return Err(a.forbidden(format!("node {node} UID mismatch: expected {} got {}", owner.uid, known.uid)));
        }
        match references(&pod["spec"]) {
            Some(what) => Err(a.forbidden(format!("node {me} can not create pods that reference {what}"))),
            None => Ok(()),
        }
    }

    fn token(&self, node: &str, a: &Attributes<'_>) -> Result<(), Status> {
        if a.operation != Operation::Create || a.subresource != "token" {
            return Ok(());
        }
        let reference = &a.object()["spec"]["boundObjectRef"];
        let is_pod = text(reference, "apiVersion") == "v1"
            && text(reference, "kind") == "Pod"
            && !text(reference, "name").is_empty();
        if !is_pod {
            return Err(a.forbidden("node requested token not bound to a pod"));
        }
        let uid = text(reference, "uid");
        if uid.is_empty() {
            return Err(a.forbidden("node requested token with a pod binding without a uid"));
        }
        let pod = self.pod(a.namespace, text(reference, "name"))?;
        if meta::uid(&pod) != uid {
            return Err(a.forbidden(format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. \
                 The object might have been deleted and then recreated"
            )));
        }
        own(&pod, node, || a.forbidden("node requested token bound to a pod scheduled on a different node"))?;
        self.audiences.check(&pod, a).map_err(|why| a.forbidden(why))
    }
}

#[async_trait]
impl Plugin for NodeRestriction {
    fn name(&self) -> &'static str {
        "NodeRestriction"
    }

    async fn mutate(&self, a: &mut Attributes<'_>) -> Result<(), Status> {
        let user = &a.context.user;
        let Some(node) = user.node_name() else { return Ok(()) };
        if node.is_empty() {
            return Err(a.forbidden(format!("could not determine node from user {}", quoted(&user.name))));
        }
        match (a.kind.group.as_str(), a.kind.plural.as_str()) {
            ("", "pods") => self.pods(node, a),
            ("", "nodes") => own_node(node, a),
            ("", "persistentvolumeclaims") => claim_status(node, a),
            ("", "serviceaccounts") => self.token(node, a),
            ("coordination.k8s.io", "leases") => lease(node, a),
            ("storage.k8s.io", "csinodes") => csi_node(node, a),
            ("resource.k8s.io", "resourceslices") => slice(node, a),
            _ => Ok(()),
        }
    }
}

fn own(pod: &Value, node: &str, refuse: impl FnOnce() -> Status) -> Result<(), Status> {
    if text(&pod["spec"], "nodeName") == node { Ok(()) } else { Err(refuse()) }
}

/// What of the API a static pod refers to, which it must not.
fn references(spec: &Value) -> Option<&'static str> {
    if !text(spec, "serviceAccountName").is_empty() {
        return Some("serviceaccounts");
    }
    if pod::uses_secrets(spec) {
        return Some("secrets");
    }
    let config_maps = pod::containers(spec).any(|(_, container)| {
        items(&container["env"]).any(|variable| variable["valueFrom"]["configMapKeyRef"].is_object())
            || items(&container["envFrom"]).any(|source| source["configMapRef"].is_object())
    });
    if config_maps || items(&spec["volumes"]).any(|volume| volume["configMap"].is_object()) {
        return Some("configmaps");
    }
    for volume in items(&spec["volumes"]) {
        for source in items(&volume["projected"]["sources"]) {
            match () {
                () if source["serviceAccountToken"].is_object() => return Some("serviceaccounts (via projected)"),
                () if source["configMap"].is_object() => return Some("configmaps (via projected)"),
                () if source["clusterTrustBundle"].is_object() => return Some("clustertrustbundles"),
                () => {}
            }
        }
        if volume["persistentVolumeClaim"].is_object() || volume["ephemeral"].is_object() {
            return Some("persistentvolumeclaims");
        }
    }
    items(&spec["resourceClaims"]).next().map(|_| "resourceclaims")
}

fn own_node(node: &str, a: &Attributes<'_>) -> Result<(), Status> {
    let me = quoted(node);
    let name = if a.name.is_empty() { meta::name(a.object()) } else { a.name };
    if name != node {
        return Err(a.forbidden(format!("node {me} is not allowed to modify node {}", quoted(name))));
    }
    let new = a.object();
    match a.operation {
        Operation::Create => {
            let labels = forbidden_labels(new, &Value::Null);
            if !labels.is_empty() {
                return Err(a.forbidden(format!("node {me} is not allowed to set the following labels: {labels}")));
            }
        }
        Operation::Update => {
            let old = a.old.unwrap_or(&Value::Null);
            if old["spec"]["taints"] != new["spec"]["taints"] {
                return Err(a.forbidden(format!("node {me} is not allowed to modify taints")));
            }
            if old["metadata"]["ownerReferences"] != new["metadata"]["ownerReferences"] {
                return Err(a.forbidden(format!("node {me} is not allowed to modify ownerReferences")));
            }
            let labels = forbidden_labels(new, old);
            if !labels.is_empty() {
                return Err(a.forbidden(format!("is not allowed to modify labels: {labels}")));
            }
        }
        Operation::Delete | Operation::Connect => {}
    }
    Ok(())
}

/// Labels of Kubernetes that a kubelet may set on its Node.
const KUBELET_LABELS: [&str; 11] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "beta.kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/arch",
];
const KUBELET_LABEL_DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

fn in_domain(namespace: &str, domain: &str) -> bool {
    namespace.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

fn is_forbidden_label(label: &str) -> bool {
    let namespace = label.split_once('/').map_or("", |(namespace, _)| namespace);
    if in_domain(namespace, "node-restriction.kubernetes.io") {
        return true;
    }
    let kubernetes = in_domain(namespace, "kubernetes.io") || in_domain(namespace, "k8s.io");
    let kubelets = KUBELET_LABELS.contains(&label)
        || label == "node.kubernetes.io/windows-build"
        || KUBELET_LABEL_DOMAINS.iter().any(|domain| in_domain(namespace, domain));
    kubernetes && !kubelets
}

/// The labels that differ and that a kubelet may not touch, joined.
fn forbidden_labels(new: &Value, old: &Value) -> String {
    let (new, old) = (meta::labels(new), meta::labels(old));
    let keys: BTreeSet<&String> = new.into_iter().chain(old).flat_map(|labels| labels.keys()).collect();
    let changed = keys.into_iter().filter(|key| new.and_then(|l| l.get(*key)) != old.and_then(|l| l.get(*key)));
    let forbidden: Vec<&str> = changed.map(String::as_str).filter(|key| is_forbidden_label(key)).collect();
    forbidden.join(", ")
}

fn claim_status(node: &str, a: &Attributes<'_>) -> Result<(), Status> {
    if a.subresource != "status" {
        return Err(a.forbidden("may only update PVC status"));
    }
    if a.operation != Operation::Update {
        return Err(a.forbidden(format!("unexpected operation {}", quoted(a.operation.as_str()))));
    }
    let rest = |claim: &Value| {
        let mut claim = claim.clone();
        if let Some(meta) = claim.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.remove("resourceVersion");
            meta.remove("managedFields");
        }
        if let Some(status) = claim.get_mut("status").and_then(Value::as_object_mut) {
            for field in ["capacity", "conditions", "allocatedResourceStatuses", "allocatedResources"] {
                status.remove(field);
            }
        }
        claim
    };
    if a.old.map(rest) != Some(rest(a.object())) {
        let me = quoted(node);
        return Err(a.forbidden(format!(
            "node {me} is not allowed to update fields other than status.quantity and status.conditions"
        )));
    }
    Ok(())
}

fn lease(node: &str, a: &Attributes<'_>) -> Result<(), Status> {
    if a.namespace != LEASE_NAMESPACE {
        return Err(a.forbidden(format!("can only access leases in the {} system namespace", quoted(LEASE_NAMESPACE))));
    }
    let name = if a.operation == Operation::Create { meta::name(a.object()) } else { a.name };
    if name == node {
        Ok(())
    } else {
        Err(a.forbidden("can only access node lease with the same name as the requesting node"))
    }
}

fn csi_node(node: &str, a: &Attributes<'_>) -> Result<(), Status> {
    let name = if a.operation == Operation::Create { meta::name(a.object()) } else { a.name };
    if name == node {
        Ok(())
    } else {
        Err(a.forbidden("can only access CSINode with the same name as the requesting node"))
    }
}

fn slice(node: &str, a: &Attributes<'_>) -> Result<(), Status> {
    let of = match a.operation {
        Operation::Create => text(&a.object()["spec"], "nodeName"),
        Operation::Delete => text(&a.old.unwrap_or(&Value::Null)["spec"], "nodeName"),
        Operation::Update | Operation::Connect => return Ok(()),
    };
    let verb = if a.operation == Operation::Create { "create" } else { "delete" };
    if of == node {
        return Ok(());
    }
    Err(a.forbidden(format!("can only {verb} ResourceSlice with the same NodeName as the requesting node")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn labels_of_kubernetes_are_not_the_kubelets() {
        for allowed in [
            "kubernetes.io/hostname",
            "node.kubernetes.io/anything",
            "example.com/x",
            "x",
            "foo.kubelet.kubernetes.io/y",
        ] {
            assert!(!is_forbidden_label(allowed), "{allowed}");
        }
        for forbidden in [
            "node-restriction.kubernetes.io/x",
            "a.node-restriction.kubernetes.io/x",
            "node-role.kubernetes.io/control-plane",
        ] {
            assert!(is_forbidden_label(forbidden), "{forbidden}");
        }
        let (old, new) = (
            json!({"metadata": {"labels": {"kubernetes.io/os": "a"}}}),
            json!({"metadata": {"labels": {"a.k8s.io/b": "c"}}}),
        );
        assert_eq!(forbidden_labels(&new, &old), "a.k8s.io/b");
    }

    #[test]
    fn static_pods_refer_to_nothing() {
        assert_eq!(references(&json!({"containers": [{"name": "c"}]})), None);
        assert_eq!(references(&json!({"volumes": [{"configMap": {"name": "x"}}]})), Some("configmaps"));
        assert_eq!(references(&json!({"serviceAccountName": "x"})), Some("serviceaccounts"));
    }
}
