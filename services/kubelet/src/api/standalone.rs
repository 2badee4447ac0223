//! A kubelet without an API server.

use super::{Api, Events, Objects};
use crate::error::{Error, Result};
use crate::pod::view;
use async_trait::async_trait;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use std::sync::Arc;

/// Has no objects, and tells events to the log.
#[derive(Debug, Clone, Copy, Default)]
pub struct Standalone;

impl Standalone {
    /// The API of a kubelet that stands alone.
    pub fn api() -> Api {
        Api { objects: Arc::new(Self), pods: None, nodes: None, reviews: None, events: Arc::new(Self) }
    }
}

fn no_client(kind: &str, namespace: &str, name: &str) -> Error {
    Error::Pod(format!("couldn't get {kind} {namespace}/{name}, no kubeClient defined"))
}

#[async_trait]
impl Objects for Standalone {
    async fn config_map(&self, namespace: &str, name: &str) -> Result<Arc<ConfigMap>> {
        Err(no_client("configMap", namespace, name))
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<Arc<Secret>> {
        Err(no_client("secret", namespace, name))
    }

    async fn token(&self, namespace: &str, account: &str, _: TokenRequestSpec) -> Result<TokenRequest> {
        Err(no_client("token of service account", namespace, account))
    }
}

impl Events for Standalone {
    fn pod(&self, pod: &Pod, container: Option<&str>, warning: bool, reason: &'static str, message: String) {
        let pod = view::formatted(pod);
        tracing::info!(pod, container, warning, reason, message, "event");
    }

    fn node(&self, warning: bool, reason: &'static str, message: String) {
        tracing::info!(warning, reason, message, "event of the node");
    }
}
