//! What the kubelet asks of the API server, as small traits: the rest of the crate knows no client, so that a kubelet
//! without an API server (static Pods only) and tests need none.

mod followed;
mod live;
mod standalone;

pub use live::Live;
pub use standalone::Standalone;

use crate::error::Result;
use async_trait::async_trait;
use futures::future::join_all;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec, TokenReviewStatus};
use k8s_openapi::api::authorization::v1::SubjectAccessReviewSpec;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Objects that Pods refer to.
#[async_trait]
pub trait Objects: Send + Sync {
    /// A ConfigMap, at most a few seconds old.
    async fn config_map(&self, namespace: &str, name: &str) -> Result<Arc<ConfigMap>>;
    /// A Secret, at most a few seconds old.
    async fn secret(&self, namespace: &str, name: &str) -> Result<Arc<Secret>>;
    /// A token of a service account.
    async fn token(&self, namespace: &str, account: &str, spec: TokenRequestSpec) -> Result<TokenRequest>;
}

/// Asks for objects side by side, so that they are at hand when they are needed one by one.
pub async fn warm(objects: &dyn Objects, namespace: &str, maps: BTreeSet<&str>, secrets: BTreeSet<&str>) {
    tokio::join!(
        join_all(maps.into_iter().map(|name| objects.config_map(namespace, name))),
        join_all(secrets.into_iter().map(|name| objects.secret(namespace, name))),
    );
}

/// What the kubelet writes about Pods.
#[async_trait]
pub trait Pods: Send + Sync {
    /// Patches its status (strategic merge).
    async fn patch_status(&self, namespace: &str, name: &str, patch: Value) -> Result<Pod>;
    /// Deletes it for good, if it still is the one with this uid.
    async fn delete_now(&self, namespace: &str, name: &str, uid: &str) -> Result<()>;
    /// Creates a mirror Pod.
    async fn create(&self, pod: &Pod) -> Result<Pod>;
}

/// What the kubelet writes about its node.
#[async_trait]
pub trait Nodes: Send + Sync {
    /// The node's object.
    async fn get(&self, name: &str) -> Result<Node>;
    /// Registers it.
    async fn create(&self, node: &Node) -> Result<Node>;
    /// Patches labels and the like.
    async fn patch(&self, name: &str, patch: Value) -> Result<Node>;
    /// Patches its status (strategic merge).
    async fn patch_status(&self, name: &str, patch: Value) -> Result<Node>;
    /// The node's Lease.
    async fn lease(&self, name: &str) -> Result<Lease>;
    /// Makes the Lease.
    async fn create_lease(&self, lease: &Lease) -> Result<Lease>;
    /// Renews the Lease.
    async fn update_lease(&self, lease: &Lease) -> Result<Lease>;
}

/// Who may talk to the kubelet's port.
#[async_trait]
pub trait Reviews: Send + Sync {
    /// Whose token is this?
    async fn token(&self, token: &str) -> Result<TokenReviewStatus>;
    /// May they? The reason comes along with a no.
    async fn access(&self, spec: SubjectAccessReviewSpec) -> Result<(bool, String)>;
}

/// Normal or Warning, about a Pod or the node.
pub trait Events: Send + Sync {
    /// An event about a Pod, or about one of its containers.
    fn pod(&self, pod: &Pod, container: Option<&str>, warning: bool, reason: &'static str, message: String);
    /// An event about the node.
    fn node(&self, warning: bool, reason: &'static str, message: String);
}

/// All of it.
#[derive(Clone)]
pub struct Api {
    /// See [`Objects`].
    pub objects: Arc<dyn Objects>,
    /// See [`Pods`]; none when standing alone.
    pub pods: Option<Arc<dyn Pods>>,
    /// See [`Nodes`]; none when standing alone.
    pub nodes: Option<Arc<dyn Nodes>>,
    /// See [`Reviews`]; none when standing alone.
    pub reviews: Option<Arc<dyn Reviews>>,
    /// See [`Events`].
    pub events: Arc<dyn Events>,
}
