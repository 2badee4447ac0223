//! Mirror Pods: they show static Pods in the API, and nothing runs because of them.
//!
//! The [`Keeper`] says what is to be done, and does no two things at once for a Pod: a look that comes while the API
//! server is still busy with the last one's request only has the Pod looked at again afterwards.

use crate::api::{Api, Nodes, Pods};
use crate::error::Error;
use crate::pod::view;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Namespace and name.
pub type Key = (String, String);
/// Mirrors by namespace and name.
pub type Mirrors = BTreeMap<Key, Arc<Pod>>;

/// An API server that has not answered by then is asked anew.
const LIMIT: Duration = Duration::from_secs(60);

/// Creates what is missing, deletes what mirrors nothing (any more).
pub struct Keeper {
    api: Option<(Arc<dyn Pods>, Arc<dyn Nodes>)>,
    node: String,
    limit: Duration,
    /// Pods for which something is being done, and whether to look again when it is.
    busy: BTreeMap<Key, bool>,
}

/// What is to be done for one Pod. It never fails: what did not work is logged, and found by the next look.
pub type Work = BoxFuture<'static, Key>;

impl Keeper {
    /// Of a node; one without an API server has nothing to do.
    pub fn new(api: &Api, node: &str) -> Self {
        Self {
            api: api.pods.clone().zip(api.nodes.clone()),
            node: node.to_owned(),
            limit: LIMIT,
            busy: BTreeMap::new(),
        }
    }

    /// What is to be done now. Each piece is to be run to its end and then told to [`Keeper::done`].
    pub fn look(&mut self, wanted: &[Arc<Pod>], mirrors: &Mirrors) -> Vec<Work> {
        let Some((pods, nodes)) = self.api.clone() else { return Vec::new() };
        let mut work: Vec<Work> = Vec::new();
        for pod in wanted {
            match mirrors.get(&key(pod)) {
                Some(mirror) if is_of(mirror, pod) => {}
                Some(mirror) => work.extend(self.begin(key(pod), delete(pods.clone(), mirror.clone()))),
                None => {
                    let create = create(pods.clone(), nodes.clone(), self.node.clone(), pod.clone());
                    work.extend(self.begin(key(pod), create));
                }
            }
        }
        for (name, mirror) in mirrors {
            if !wanted.iter().any(|pod| key(pod) == *name) {
                work.extend(self.begin(name.clone(), delete(pods.clone(), mirror.clone())));
            }
        }
        work
    }

    /// A piece of work is over; is it time to look again?
    pub fn done(&mut self, key: &Key) -> bool {
        self.busy.remove(key).unwrap_or_default()
    }

    fn begin(&mut self, key: Key, work: impl Future<Output = ()> + Send + 'static) -> Option<Work> {
        if let Some(again) = self.busy.get_mut(&key) {
            *again = true;
            return None;
        }
        self.busy.insert(key.clone(), false);
        let limit = self.limit;
        Some(Box::pin(async move {
            if tokio::time::timeout(limit, work).await.is_err() {
                tracing::warn!(namespace = key.0, pod = key.1, "no answer from the API server about a mirror Pod");
            }
            key
        }))
    }
}

/// Namespace and name of a Pod.
pub fn key(pod: &Pod) -> Key {
    (view::namespace(pod).to_owned(), view::name(pod).to_owned())
}

fn is_of(mirror: &Pod, pod: &Pod) -> bool {
    mirror.metadata.deletion_timestamp.is_none()
        && view::annotation(mirror, view::CONFIG_MIRROR) == view::annotation(pod, view::CONFIG_HASH)
}

async fn create(pods: Arc<dyn Pods>, nodes: Arc<dyn Nodes>, node: String, pod: Arc<Pod>) {
    let mut mirror = (*pod).clone();
    mirror.metadata.uid = None;
    let annotations = mirror.metadata.annotations.get_or_insert_default();
    if let Some(hash) = annotations.get(view::CONFIG_HASH).cloned() {
        annotations.insert(view::CONFIG_MIRROR.into(), hash);
    }
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

async fn delete(pods: Arc<dyn Pods>, mirror: Arc<Pod>) {
    let (namespace, name, uid) = (view::namespace(&mirror), view::name(&mirror), view::uid(&mirror));
    if let Err(error) = pods.delete_now(namespace, name, uid).await {
        tracing::warn!(%error, pod = name, "a mirror Pod was not deleted");
    }
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").field("busy", &self.busy).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "mirror_tests.rs"]
mod tests;
