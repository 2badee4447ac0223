//! The API server, through the house's client.

use super::followed::Followed;
use super::{Api, Events, Nodes, Objects, Pods, Reviews};
use crate::error::{Error, Result};
use crate::pod::view::{self, Role};
use async_trait::async_trait;
use k8s_openapi::api::authentication::v1::{
    TokenRequest, TokenRequestSpec, TokenReview, TokenReviewSpec, TokenReviewStatus,
};
use k8s_openapi::api::authorization::v1::{SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node, ObjectReference, Pod, Secret, ServiceAccount};
use serde_json::Value;
use std::sync::Arc;
use trireme_client::events::reference;
use trireme_client::{Client, Clock, DeleteParams, EventRecorder, EventType, Patch, PatchParams, PostParams, Tasks};

const LEASES: &str = "kube-node-lease";

/// The API of a kubelet that has an API server.
#[derive(Clone)]
pub struct Live {
    client: Client,
    node: String,
    recorder: EventRecorder,
    config_maps: Followed<ConfigMap>,
    secrets: Followed<Secret>,
}

impl Live {
    /// For the node of this name.
    pub fn api(client: &Client, node: &str, tasks: &Tasks) -> Api {
        let live = Arc::new(Self {
            client: client.clone(),
            node: node.to_owned(),
            recorder: EventRecorder::new(client, "kubelet", node, &Clock::system(), tasks),
            config_maps: Followed::start(client, tasks, "configmap"),
            secrets: Followed::start(client, tasks, "secret"),
        });
        Api {
            objects: live.clone(),
            pods: Some(live.clone()),
            nodes: Some(live.clone()),
            reviews: Some(live.clone()),
            events: live,
        }
    }
}

impl From<trireme_client::Error> for Error {
    fn from(error: trireme_client::Error) -> Self {
        match error {
            error if error.is_not_found() => Self::NotFound(error.to_string()),
            error if error.is_conflict() => Self::Conflict(error.to_string()),
            error if error.is_already_exists() => Self::Exists(error.to_string()),
            error => match error.code() {
                Some(400..=428 | 430..=499) => Self::Refused(error.to_string()),
                _ => Self::Api(error.to_string()),
            },
        }
    }
}

#[async_trait]
impl Objects for Live {
    async fn config_map(&self, namespace: &str, name: &str) -> Result<Arc<ConfigMap>> {
        self.config_maps.get(namespace, name).await
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<Arc<Secret>> {
        self.secrets.get(namespace, name).await
    }

    async fn token(&self, namespace: &str, account: &str, spec: TokenRequestSpec) -> Result<TokenRequest> {
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let accounts = self.client.namespaced::<ServiceAccount>(namespace);
        let body = serde_json::to_value(&request).map_err(|error| Error::Api(error.to_string()))?;
        let answer = accounts.create_subresource(account, "token", &body).await?;
        serde_json::from_value(answer).map_err(|error| Error::Api(format!("token request: {error}")))
    }
}

#[async_trait]
impl Pods for Live {
    async fn patch_status(&self, namespace: &str, name: &str, patch: Value) -> Result<Pod> {
        let pods = self.client.namespaced::<Pod>(namespace);
        Ok(pods.patch_status(name, &PatchParams::default(), &Patch::Strategic(patch)).await?)
    }

    async fn delete_now(&self, namespace: &str, name: &str, uid: &str) -> Result<()> {
        let params = DeleteParams::uid(uid).grace(0);
        match self.client.namespaced::<Pod>(namespace).delete(name, &params).await {
            Ok(_) => Ok(()),
            // Gone already, or another one by that name.
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn create(&self, pod: &Pod) -> Result<Pod> {
        Ok(self.client.namespaced::<Pod>(view::namespace(pod)).create(&PostParams::default(), pod).await?)
    }
}

#[async_trait]
impl Nodes for Live {
    async fn get(&self, name: &str) -> Result<Node> {
        Ok(self.client.api::<Node>().get(name).await?)
    }

    async fn create(&self, node: &Node) -> Result<Node> {
        Ok(self.client.api::<Node>().create(&PostParams::default(), node).await?)
    }

    async fn patch(&self, name: &str, patch: Value) -> Result<Node> {
        Ok(self.client.api::<Node>().patch(name, &PatchParams::default(), &Patch::Strategic(patch)).await?)
    }

    async fn patch_status(&self, name: &str, patch: Value) -> Result<Node> {
        Ok(self.client.api::<Node>().patch_status(name, &PatchParams::default(), &Patch::Strategic(patch)).await?)
    }

    async fn lease(&self, name: &str) -> Result<Lease> {
        Ok(self.client.namespaced::<Lease>(LEASES).get(name).await?)
    }

    async fn create_lease(&self, lease: &Lease) -> Result<Lease> {
        Ok(self.client.namespaced::<Lease>(LEASES).create(&PostParams::default(), lease).await?)
    }

    async fn update_lease(&self, lease: &Lease) -> Result<Lease> {
        Ok(self.client.namespaced::<Lease>(LEASES).update(&PostParams::default(), lease).await?)
    }
}

#[async_trait]
impl Reviews for Live {
    async fn token(&self, token: &str) -> Result<TokenReviewStatus> {
        let spec = TokenReviewSpec { token: token.to_owned(), audiences: None };
        let review = TokenReview { spec, ..TokenReview::default() };
        let answer = self.client.api::<TokenReview>().create(&PostParams::default(), &review).await?;
        Ok(answer.status.unwrap_or_default())
    }

    async fn access(&self, spec: SubjectAccessReviewSpec) -> Result<(bool, String)> {
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let answer = self.client.api::<SubjectAccessReview>().create(&PostParams::default(), &review).await?;
        let status = answer.status.unwrap_or_default();
        Ok((status.allowed, status.reason.unwrap_or_default()))
    }
}

fn kind(warning: bool) -> EventType {
    if warning { EventType::Warning } else { EventType::Normal }
}

impl Events for Live {
    fn pod(&self, pod: &Pod, container: Option<&str>, warning: bool, reason: &'static str, message: String) {
        let mut object = reference(pod);
        object.field_path = container.and_then(|name| {
            let list = match view::container(pod, name)?.0 {
                Role::Init => "initContainers",
                Role::Regular => "containers",
                Role::Ephemeral => "ephemeralContainers",
            };
            Some(format!("spec.{list}{{{name}}}"))
        });
        self.recorder.event_for(object, kind(warning), reason, message);
    }

    fn node(&self, warning: bool, reason: &'static str, message: String) {
        let object = ObjectReference {
            kind: Some("Node".into()),
            name: Some(self.node.clone()),
            uid: Some(self.node.clone()),
            ..ObjectReference::default()
        };
        self.recorder.event_for(object, kind(warning), reason, message);
    }
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("node", &self.node).finish_non_exhaustive()
    }
}
