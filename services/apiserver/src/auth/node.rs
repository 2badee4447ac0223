//! What a node's kubelet may do: its own objects, and what the pods bound to it refer to.
//!
//! There is no graph to keep: pods of one node in one namespace are few, so each question walks them in the watch cache
//! and is answered from the present. The admission plugin NodeRestriction completes this where the name of an object
//! is not known before its body is read.

mod references;

use std::sync::Arc;

use serde_json::Value;
use trireme_kinds::{Kind, Registry};

use super::attributes::{Attributes, Decision};
use super::rbac::PolicyRule;
use super::user::{UserInfo, quoted};
use crate::pipeline::{Reader, Stored};
use references::Reference;

/// The namespace of the nodes' Leases.
pub const LEASE_NAMESPACE: &str = "kube-node-lease";

/// Decides for members of system:nodes.
pub struct NodeAuthorizer {
    reader: Arc<dyn Reader>,
    /// What every node may do alike.
    rules: Vec<PolicyRule>,
    pods: Option<Arc<Kind>>,
    volumes: Option<Arc<Kind>>,
    attachments: Option<Arc<Kind>>,
    slices: Option<Arc<Kind>>,
}

impl NodeAuthorizer {
    /// An authorizer over the objects in `reader`; `rules` are those of the role system:node.
    #[must_use]
    pub fn new(reader: Arc<dyn Reader>, registry: &Registry, rules: Vec<PolicyRule>) -> Self {
        Self {
            reader,
            rules,
            pods: registry.by_resource("", "v1", "pods"),
            volumes: registry.by_resource("", "v1", "persistentvolumes"),
            attachments: registry.by_resource("storage.k8s.io", "v1", "volumeattachments"),
            slices: registry.by_resource("resource.k8s.io", "v1", "resourceslices"),
        }
    }

    /// May this kubelet do this? No opinion on anyone else.
    #[must_use]
    pub fn authorize(&self, user: &UserInfo, asked: &Attributes<'_>) -> Decision {
        let Some(node) = user.node_name() else { return Decision::no_opinion("") };
        if node.is_empty() {
            return Decision::no_opinion(format!("unknown node for user {}", quoted(&user.name)));
        }
        let answer = if asked.is_resource { self.subdivided(node, asked) } else { None };
        match answer {
            Some(Ok(())) => Decision::allow(""),
            Some(Err(reason)) => Decision::no_opinion(reason),
            None if self.rules.iter().any(|rule| rule.allows(asked)) => Decision::allow(""),
            None => Decision::no_opinion(""),
        }
    }

    /// Answers for the resources of which a node gets a part only.
    fn subdivided(&self, node: &str, asked: &Attributes<'_>) -> Option<Result<(), String>> {
        Some(match (asked.group, asked.resource) {
            ("", "secrets") => self.read_referenced(node, Reference::Secret, asked),
            ("", "configmaps") => self.read_referenced(node, Reference::ConfigMap, asked),
            ("", "persistentvolumeclaims") if asked.subresource == "status" => match asked.verb {
                "update" | "patch" => self.referenced(node, Reference::Claim, asked),
                _ => Err("can only get/update/patch this type".into()),
            },
            ("", "persistentvolumeclaims") => {
                get_only(asked).and_then(|()| self.referenced(node, Reference::Claim, asked))
            }
            ("", "persistentvolumes") => get_only(asked).and_then(|()| self.volume(node, asked)),
            ("resource.k8s.io", "resourceclaims") => {
                get_only(asked).and_then(|()| self.referenced(node, Reference::ResourceClaim, asked))
            }
            ("storage.k8s.io", "volumeattachments") => {
                get_only(asked).and_then(|()| self.bound(node, self.attachments.as_ref(), asked))
            }
            ("", "serviceaccounts") => self.service_account(node, asked),
            ("coordination.k8s.io", "leases") => lease(node, asked),
            ("storage.k8s.io", "csinodes") => csi_node(node, asked),
            ("resource.k8s.io", "resourceslices") => self.slice(node, asked),
            ("", "nodes") => own_node(node, asked),
            ("", "pods") => self.pod(node, asked),
            _ => return None,
        })
    }

    fn read_referenced(&self, node: &str, what: Reference, asked: &Attributes<'_>) -> Result<(), String> {
        if !matches!(asked.verb, "get" | "list" | "watch") {
            return Err("can only read resources of this type".into());
        }
        if !asked.subresource.is_empty() {
            return Err("cannot read subresource".into());
        }
        if asked.namespace.is_empty() {
            return Err("can only read namespaced object of this type".into());
        }
        self.referenced(node, what, asked)
    }

    fn service_account(&self, node: &str, asked: &Attributes<'_>) -> Result<(), String> {
        if asked.verb == "get" && asked.subresource.is_empty() {
            return self.read_referenced(node, Reference::ServiceAccount, asked);
        }
        if asked.verb != "create" || asked.name.is_empty() {
            return Err("can only create tokens for individual service accounts".into());
        }
        if asked.subresource != "token" {
            return Err("can only create token subresource of serviceaccount".into());
        }
        self.referenced(node, Reference::ServiceAccount, asked)
    }

    fn pod(&self, node: &str, asked: &Attributes<'_>) -> Result<(), String> {
        match (asked.subresource, asked.verb) {
            ("", "get") => self.bound(node, self.pods.as_ref(), asked),
            ("", "list" | "watch") if asked.selects("spec.nodeName", node) => Ok(()),
            ("", "list" | "watch") if !asked.name.is_empty() => self.bound(node, self.pods.as_ref(), asked),
            ("", "list" | "watch") => Err("can only list/watch pods with spec.nodeName field selector".into()),
            // Mirror pods, status and eviction of its own pods: NodeRestriction looks at the rest.
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => Ok(()),
            _ => Err(String::new()),
        }
    }

    fn slice(&self, node: &str, asked: &Attributes<'_>) -> Result<(), String> {
        if !asked.subresource.is_empty() {
            return Err("cannot authorize ResourceSlice subresources".into());
        }
        match asked.verb {
            "create" => Ok(()),
            "get" | "update" | "patch" | "delete" => self.bound(node, self.slices.as_ref(), asked),
            "watch" | "list" | "deletecollection" if asked.selects("spec.nodeName", node) => Ok(()),
            "watch" | "list" | "deletecollection" => {
                Err("can only list/watch/deletecollection resourceslices with nodeName field selector".into())
            }
            _ => Err("only the following verbs are allowed for a ResourceSlice: \
                      get, watch, list, create, update, patch, delete, deletecollection"
                .into()),
        }
    }

    /// An object that names the node in `spec.nodeName`.
    fn bound(&self, node: &str, kind: Option<&Arc<Kind>>, asked: &Attributes<'_>) -> Result<(), String> {
        if asked.name.is_empty() {
            return Err("No Object name found".into());
        }
        let found = kind.and_then(|kind| self.reader.get(kind, asked.namespace, asked.name));
        let bound =
            found.is_some_and(|object| object.value().pointer("/spec/nodeName").and_then(Value::as_str) == Some(node));
        if bound { Ok(()) } else { Err(unrelated(node)) }
    }

    /// An object that a pod of the node refers to, or (for secrets) that a volume of such a pod's claim refers to.
    fn referenced(&self, node: &str, what: Reference, asked: &Attributes<'_>) -> Result<(), String> {
        if asked.name.is_empty() {
            return Err("No Object name found".into());
        }
        let mut pods = self.pods_of(node, Some(asked.namespace));
        // The claim of an ephemeral volume is named by none.
        let may = |pod: &Stored| what == Reference::Claim || names(pod, asked.name);
        let direct = pods.any(|pod| may(&pod) && references::pod_refers(&pod.value(), what, asked.name));
        let by_volume = || {
            let mut volumes = self.list(self.volumes.as_ref(), None).filter(|volume| names(volume, asked.name));
            volumes.any(|volume| {
                let volume = volume.value();
                references::volume_refers(&volume, asked.namespace, asked.name) && self.claimed_on(node, &volume)
            })
        };
        if direct || (what == Reference::Secret && by_volume()) { Ok(()) } else { Err(unrelated(node)) }
    }

    fn volume(&self, node: &str, asked: &Attributes<'_>) -> Result<(), String> {
        let volume = self.volumes.as_ref().and_then(|kind| self.reader.get(kind, "", asked.name));
        let related = volume.is_some_and(|volume| self.claimed_on(node, &volume.value()));
        if related { Ok(()) } else { Err(unrelated(node)) }
    }

    /// Whether a pod of the node uses the claim that holds this volume.
    fn claimed_on(&self, node: &str, volume: &Value) -> bool {
        let claim = |field: &str| volume.pointer(&format!("/spec/claimRef/{field}")).and_then(Value::as_str);
        let (Some(namespace), Some(name)) = (claim("namespace"), claim("name")) else { return false };
        self.pods_of(node, Some(namespace)).any(|pod| references::pod_refers(&pod.value(), Reference::Claim, name))
    }

    /// The pods of the node, one after the other: none is read that is not looked at.
    fn pods_of<'a>(&'a self, node: &'a str, namespace: Option<&'a str>) -> impl Iterator<Item = Arc<Stored>> + 'a {
        let own = move |pod: &Arc<Stored>| {
            pod.fields.iter().any(|(field, value)| &**field == "spec.nodeName" && &**value == node)
        };
        self.list(self.pods.as_ref(), namespace).filter(own)
    }

    fn list(&self, kind: Option<&Arc<Kind>>, namespace: Option<&str>) -> impl Iterator<Item = Arc<Stored>> + use<> {
        kind.map(|kind| self.reader.list(kind, namespace)).into_iter().flatten()
    }
}

/// Whether the object's text holds the name at all. What is no name is not to be parsed for it: most objects of a
/// cluster are none of what a node asks about.
fn names(stored: &Stored, name: &str) -> bool {
    std::str::from_utf8(&stored.body).is_ok_and(|body| body.contains(name))
}

fn unrelated(node: &str) -> String {
    format!("no relationship found between node '{node}' and this object")
}

fn get_only(asked: &Attributes<'_>) -> Result<(), String> {
    if asked.verb != "get" {
        return Err("can only get individual resources of this type".into());
    }
    if !asked.subresource.is_empty() {
        return Err("cannot get subresource".into());
    }
    Ok(())
}

fn lease(node: &str, asked: &Attributes<'_>) -> Result<(), String> {
    if !matches!(asked.verb, "get" | "create" | "update" | "patch" | "delete") {
        return Err("can only get, create, update, patch, or delete a node lease".into());
    }
    if asked.namespace != LEASE_NAMESPACE {
        return Err(format!("can only access leases in the {} system namespace", quoted(LEASE_NAMESPACE)));
    }
    if asked.verb != "create" && asked.name != node {
        return Err("can only access node lease with the same name as the requesting node".into());
    }
    Ok(())
}

fn csi_node(node: &str, asked: &Attributes<'_>) -> Result<(), String> {
    if !asked.subresource.is_empty() {
        return Err("cannot authorize CSINode subresources".into());
    }
    if !matches!(asked.verb, "get" | "create" | "update" | "patch" | "delete") {
        return Err("can only get, create, update, patch, or delete a CSINode".into());
    }
    if asked.verb != "create" && asked.name != node {
        return Err("can only access CSINode with the same name as the requesting node".into());
    }
    Ok(())
}

fn own_node(node: &str, asked: &Attributes<'_>) -> Result<(), String> {
    match (asked.subresource, asked.verb) {
        ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Ok(()),
        ("", "get" | "list" | "watch") => match asked.name {
            name if name == node => Ok(()),
            "" => Err(format!("node '{node}' cannot read all nodes, only its own Node object")),
            other => Err(format!("node '{node}' cannot read '{other}', only its own Node object")),
        },
        _ => Err(String::new()),
    }
}
