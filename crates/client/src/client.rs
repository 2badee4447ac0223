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
    transport: Arc<dyn Transport>,
    rest: Arc<Rest>,
    limiter: Option<Limiter>,
    config: Config,
}

impl Client {
    /// Takes the gRPC door if the configuration names one, else Kubernetes' REST API. Nothing is sent yet.
    ///
    /// # Errors
    /// Certificates or addresses are not usable.
    pub fn new(config: Config) -> Result<Self, Error> {
        let rest = Arc::new(Rest::new(&config)?);
        let transport: Arc<dyn Transport> = match &config.resources_endpoint {
            Some(endpoint) => Arc::new(Grpc::new(&config, endpoint)?),
            None => rest.clone(),
        };
        let limiter = config.qps.map(|qps| Limiter::new(qps, config.burst));
        Ok(Self { inner: Arc::new(Inner { transport, rest, limiter, config }) })
    }

    /// How it was made: to make one with another identity.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.inner.config
    }

    /// The API server is ours and takes fences: writes are refused once a claim moved.
    #[must_use]
    pub fn fences(&self) -> bool {
        self.inner.transport.fences()
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
        let result = self.inner.transport.call(&request, trace).instrument(span.clone()).await;
        match &result {
            Ok(answer) => {
                for warning in &answer.warnings {
                    tracing::warn!(verb = request.verb, resource = request.resource.plural, "{warning}");
                }
                if request.writes() {
                    note_write(&request, answer);
                }
            }
            Err(error) => note_error(&span, error),
        }
        result
    }

    pub(crate) async fn list(&self, request: &Request) -> Result<Listed, Error> {
        self.throttle().await;
        let (span, trace) = open_span(request);
        let result = self.inner.transport.list(request, trace).instrument(span.clone()).await;
        if let Err(error) = &result {
            note_error(&span, error);
        }
        result
    }

    pub(crate) async fn watch(&self, request: &Request) -> Result<WatchStream, Error> {
        self.throttle().await;
        self.inner.transport.watch(request).await
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
