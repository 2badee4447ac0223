//! The client: one identity, one way to an API server, cheap to clone.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use tracing::Instrument as _;
use trireme_telemetry::{Hop, Kind, Parent, SpanExt as _, TraceParent};

use crate::api::Api;
use crate::config::Config;
use crate::context::{self, Effect, Write};
use crate::error::Error;
use crate::key::ObjectKey;
use crate::limit::Limiter;
use crate::object::{ApiResource, DynObject, Known, MetaObject, Object};
use crate::token::Bearer;
use crate::transport::grpc::Grpc;
use crate::transport::rest::Rest;
use crate::transport::{Answer, Listed, Request, Transport, WatchStream};

/// A component's way to its API server.
#[derive(Debug, Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    rest: Rest,
    /// The door, if it is taken; everything but raw paths goes through it then.
    grpc: Option<Grpc>,
    bearer: Option<Arc<Bearer>>,
    limiter: Option<Arc<Limiter>>,
    config: Config,
}

/// Makes clients that act as service accounts, over one connection.
#[derive(Debug, Clone)]
pub struct ServiceAccounts {
    asker: Client,
    anonymous: Client,
}

impl ServiceAccounts {
    /// A client that acts as this service account, which is made when it is first needed.
    #[must_use]
    pub fn client(&self, namespace: &str, name: &str) -> Client {
        let bearer = Arc::new(Bearer::requested(self.asker.clone(), namespace, name));
        let like = &self.anonymous.inner;
        let inner = Inner {
            rest: like.rest.with_bearer(bearer.clone()),
            grpc: like.grpc.as_ref().map(|grpc| grpc.with_bearer(bearer.clone())),
            bearer: Some(bearer),
            limiter: like.limiter.clone(),
            config: like.config.clone(),
        };
        Client { inner: Arc::new(inner) }
    }
}

impl Client {
    /// Takes the gRPC door if the configuration names one, else Kubernetes' REST API. Nothing is sent yet.
    ///
    /// # Errors
    /// Certificates or addresses are not usable.
    pub fn new(config: Config) -> Result<Self, Error> {
        let bearer = config.token.clone().map(Bearer::new).map(Arc::new);
        let rest = Rest::new(&config, bearer.clone())?;
        let endpoint = config.resources_endpoint.as_deref();
        let grpc = endpoint.map(|endpoint| Grpc::new(&config, endpoint, bearer.clone())).transpose()?;
        let limiter = config.qps.map(|qps| Arc::new(Limiter::new(qps, config.burst)));
        Ok(Self { inner: Arc::new(Inner { rest, grpc, bearer, limiter, config }) })
    }

    /// Clients that act as service accounts, with tokens that this client asks for.
    ///
    /// # Errors
    /// The configuration is not usable.
    pub fn service_accounts(&self) -> Result<ServiceAccounts, Error> {
        // A certificate would count more than a token.
        let config = Config { identity: None, token: None, ..self.inner.config.clone() };
        Ok(ServiceAccounts { asker: self.clone(), anonymous: Client::new(config)? })
    }

    fn transport(&self) -> &dyn Transport {
        match &self.inner.grpc {
            Some(grpc) => grpc,
            None => &self.inner.rest,
        }
    }

    /// How it was made: to make one with another identity.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.inner.config
    }

    /// The API server is ours and takes fences: writes are refused once a claim moved.
    #[must_use]
    pub fn fences(&self) -> bool {
        self.transport().fences()
    }

    /// Objects of a kind, in all namespaces or of the cluster.
    #[must_use]
    pub fn api<K: Known>(&self) -> Api<K> {
        Api::new(self.clone(), K::resource(), String::new())
    }

    /// Objects of a kind in a namespace.
    #[must_use]
    pub fn namespaced<K: Known>(&self, namespace: impl Into<String>) -> Api<K> {
        Api::new(self.clone(), K::resource(), namespace.into())
    }

    /// Objects of a resource known at run time; an empty namespace means all, or the cluster.
    #[must_use]
    pub fn dynamic(&self, resource: &ApiResource, namespace: &str) -> Api<DynObject> {
        Api::new(self.clone(), resource.clone(), namespace.to_owned())
    }

    /// The metadata of objects of a resource known at run time.
    #[must_use]
    pub fn metadata(&self, resource: &ApiResource, namespace: &str) -> Api<MetaObject> {
        Api::new(self.clone(), resource.clone(), namespace.to_owned())
    }

    /// A GET of any path of the REST API: discovery, version, logs.
    ///
    /// # Errors
    /// The server refused or could not be reached.
    pub async fn get_path(&self, path: &str) -> Result<Bytes, Error> {
        self.inner.rest.get_path(path, "application/json").await
    }

    /// A GET of a path that is JSON.
    ///
    /// # Errors
    /// The server refused, could not be reached, or answered something else.
    pub async fn get_json<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        let body = self.get_path(path).await?;
        serde_json::from_slice(&body).map_err(|e| Error::decode(path, e))
    }

    /// Waits until the API server answers, as long as it takes.
    pub async fn wait_until_reachable(&self) {
        let mut backoff = crate::backoff::Backoff::new(Duration::from_millis(100), Duration::from_secs(2));
        let mut told = false;
        while let Err(error) = self.get_path("/version").await {
            if error.code().is_some_and(|c| c == 401 || c == 403) {
                return;
            }
            if !told {
                tracing::info!(%error, "waiting for the API server");
                told = true;
            }
            tokio::time::sleep(backoff.wait()).await;
        }
    }

    /// One request as it is: what `Api` does not offer.
    ///
    /// # Errors
    /// The server refused or could not be reached.
    pub async fn request(&self, mut request: Request) -> Result<Answer, Error> {
        request.fence = request.fence.or_else(context::current_fence);
        self.throttle().await;
        let (span, trace) = open_span(&request);
        let result = self.transport().call(&request, trace).instrument(span.clone()).await;
        match &result {
            Ok(answer) => {
                for warning in self.told(answer) {
                    tracing::warn!(verb = request.verb, resource = request.resource.plural, "{warning}");
                }
                if request.writes() {
                    note_write(&request, answer);
                }
            }
            Err(error) => {
                note_error(&span, error);
                if let Some(bearer) = self.inner.bearer.as_ref().filter(|_| error.code() == Some(401)) {
                    bearer.refused().await;
                }
            }
        }
        result
    }

    /// The warnings that are logged.
    fn told<'a>(&self, answer: &'a Answer) -> &'a [String] {
        if self.inner.config.warnings { &answer.warnings } else { &[] }
    }

    pub(crate) async fn list(&self, request: &Request) -> Result<Listed, Error> {
        self.throttle().await;
        let (span, trace) = open_span(request);
        let result = self.transport().list(request, trace).instrument(span.clone()).await;
        if let Err(error) = &result {
            note_error(&span, error);
        }
        result
    }

    pub(crate) async fn watch(&self, request: &Request) -> Result<WatchStream, Error> {
        self.throttle().await;
        self.transport().watch(request).await
    }

    async fn throttle(&self) {
        if let Some(limiter) = &self.inner.limiter {
            limiter.acquire().await;
        }
    }
}

/// Inside a span a call is a CLIENT span of its own; heartbeats and calls out of the blue are not traced.
fn open_span(request: &Request) -> (tracing::Span, Option<TraceParent>) {
    let parent = match trireme_telemetry::current() {
        _ if context::is_untraced() => return (tracing::Span::none(), None),
        Some(_) => Parent::Current,
        None if context::is_quiet() && request.writes() => Parent::Root,
        None => return (tracing::Span::none(), None),
    };
    let verb = match request.verb {
        "create" => "POST",
        "update" => "PUT",
        "patch" => "PATCH",
        "delete" | "deletecollection" => "DELETE",
        _ => "GET",
    };
    let mut name = format!("{verb} {}", request.resource.plural);
    if !request.subresource.is_empty() {
        name = format!("{name}/{}", request.subresource);
    }
    let span = trireme_telemetry::span(name)
        .kind(Kind::Client)
        .parent(parent)
        .attribute("k8s.resource", request.resource.group_resource())
        .attribute("k8s.namespace.name", request.namespace.clone())
        .attribute("k8s.object.name", request.name.clone())
        .start();
    let trace = Hop::Apiserver.carry(span.trace_parent());
    (span, trace)
}

fn note_error(span: &tracing::Span, error: &Error) {
    if let Some(code) = error.code() {
        span.attribute("http.response.status_code", i64::from(code));
    }
    span.fail(error.to_string());
}

fn note_write(request: &Request, answer: &Answer) {
    let object = serde_json::from_slice::<MetaObject>(&answer.body).unwrap_or_default();
    let name =
        if request.name.is_empty() { object.meta().name.clone().unwrap_or_default() } else { request.name.clone() };
    let effect = if request.verb == "delete" {
        let uid = request.options.pointer("/preconditions/uid").and_then(|u| u.as_str()).map(str::to_owned);
        Effect::Deleted { uid, revision: answer.revision }
    } else if answer.revision > 0 && matches!(request.subresource.as_str(), "" | "status" | "scale" | "binding") {
        Effect::Revision(answer.revision)
    } else {
        return;
    };
    context::note(Write { resource: request.resource.clone(), key: ObjectKey::new(&request.namespace, name), effect });
}

#[cfg(test)]
mod tests {
    use super::*;

    const KUBECONFIG: &str = "current-context: c\ncontexts: [{name: c, context: {cluster: c}}]\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n";

    #[tokio::test]
    async fn warnings_are_told_unless_they_are_no_news() {
        let config = Config::parse(KUBECONFIG, std::path::Path::new("/"), None).unwrap();
        let answer = Answer { warnings: vec!["v1 Endpoints is deprecated".to_owned()], ..Answer::default() };
        assert_eq!(Client::new(config.clone()).unwrap().told(&answer).len(), 1);
        let quiet = Client::new(config.without_warnings()).unwrap();
        assert!(quiet.told(&answer).is_empty());
        // Controllers write as service accounts.
        assert!(
            quiet.service_accounts().unwrap().client("kube-system", "endpoint-controller").told(&answer).is_empty()
        );
    }
}
