//! Mirror Pods: they show static Pods in the API, and nothing runs because of them.

use crate::api::Pods;
use crate::error::Error;
use crate::host::Host;
use crate::pod::view;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Mirrors by namespace and name.
pub type Mirrors = BTreeMap<(String, String), Arc<Pod>>;

/// Creates what is missing, deletes what mirrors nothing (any more). Called again and again, so a failure is only logged.
pub fn reconcile(host: &Host, wanted: &[Arc<Pod>], mirrors: &Mirrors, sources_ready: bool) {
    let Some(pods) = host.api.pods.clone().filter(|_| sources_ready) else { return };
    let key = |pod: &Pod| (view::namespace(pod).to_owned(), view::name(pod).to_owned());
    for pod in wanted {
        match mirrors.get(&key(pod)) {
            Some(mirror) if is_of(mirror, pod) => {}
            Some(mirror) => delete(pods.clone(), mirror.clone()),
            None => create(host, pods.clone(), pod.clone()),
        }
    }
    for (name, mirror) in mirrors {
        if !wanted.iter().any(|pod| key(pod) == *name) {
            delete(pods.clone(), mirror.clone());
        }
    }
}

fn is_of(mirror: &Pod, pod: &Pod) -> bool {
    mirror.metadata.deletion_timestamp.is_none()
        && view::annotation(mirror, view::CONFIG_MIRROR) == view::annotation(pod, view::CONFIG_HASH)
}

fn create(host: &Host, pods: Arc<dyn Pods>, pod: Arc<Pod>) {
    let (nodes, node) = (host.api.nodes.clone(), host.config.node_name.clone());
    let mut mirror = (*pod).clone();
    mirror.metadata.uid = None;
    let annotations = mirror.metadata.annotations.get_or_insert_default();
    if let Some(hash) = annotations.get(view::CONFIG_HASH).cloned() {
        annotations.insert(view::CONFIG_MIRROR.into(), hash);
    }
    tokio::spawn(async move {
        let Some(nodes) = nodes else { return };
        // Whoever deletes the node deletes what it shows; a node may create no other Pods.
        match nodes.get(&node).await {
            Ok(owner) => mirror.metadata.owner_references = Some(vec![owned_by(&node, owner.metadata.uid)]),
            Err(error) => {
                tracing::debug!(%error, "the node is not registered yet");
                return;
            }
        }
        match pods.create(&mirror).await {
            Ok(_) | Err(Error::Exists(_)) => {}
            Err(error) => tracing::warn!(%error, pod = view::name(&mirror), "a static Pod is not shown in the API"),
        }
    });
}

fn owned_by(node: &str, uid: Option<String>) -> OwnerReference {
    OwnerReference {
        api_version: "v1".into(),
        kind: "Node".into(),
        name: node.to_owned(),
        uid: uid.unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

fn delete(pods: Arc<dyn Pods>, mirror: Arc<Pod>) {
    tokio::spawn(async move {
        let (namespace, name, uid) = (view::namespace(&mirror), view::name(&mirror), view::uid(&mirror));
        if let Err(error) = pods.delete_now(namespace, name, uid).await {
            tracing::warn!(%error, pod = name, "a mirror Pod was not deleted");
        }
    });
}
