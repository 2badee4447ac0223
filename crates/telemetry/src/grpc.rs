//! Tower layers that carry the trace context over tonic.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tower::{Layer, Service};
use tracing::Instrument as _;

use crate::http::{extract, set};
use crate::{Hop, Kind, Parent, SpanExt as _, current, span};

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The layer for a tonic server: a call that carries a trace gets a SERVER span named `Service/Method`.
#[must_use]
pub fn server_layer(hop: Hop) -> ServerTrace {
    ServerTrace { hop, roots: false }
}

/// See [`server_layer`].
#[derive(Clone, Copy, Debug)]
pub struct ServerTrace {
    hop: Hop,
    roots: bool,
}

impl ServerTrace {
    /// Calls without a trace open one of their own. By default they are not traced: heartbeats, watches and health
    /// checks come that way.
    #[must_use]
    pub fn with_roots(mut self) -> Self {
        self.roots = true;
        self
    }
}

/// The layer for a tonic client: inside a span, a call gets a CLIENT span and names it to the server.
///
/// The span ends when the response's head stands: for a unary call that is the answer, for a stream its begin.
#[derive(Clone, Copy, Debug)]
pub struct ClientTrace {
    hop: Hop,
    spans: bool,
}

impl ClientTrace {
    /// Calls over `hop`.
    #[must_use]
    pub fn new(hop: Hop) -> Self {
        Self { hop, spans: true }
    }

    /// Names the current span to the server and opens none, for callers that open a better one themselves.
    #[must_use]
    pub fn inject_only(hop: Hop) -> Self {
        Self { hop, spans: false }
    }
}

/// What [`ServerTrace`] makes of a service.
#[derive(Clone, Debug)]
pub struct ServerTraceService<S> {
    inner: S,
    layer: ServerTrace,
}

/// What [`ClientTrace`] makes of a channel.
#[derive(Clone, Debug)]
pub struct ClientTraceService<S> {
    inner: S,
    layer: ClientTrace,
}

// === impl ServerTrace ===

impl<S> Layer<S> for ServerTrace {
    type Service = ServerTraceService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        ServerTraceService { inner, layer: *self }
    }
}

impl<S, B, R> Service<::http::Request<B>> for ServerTraceService<S>
where
    S: Service<::http::Request<B>, Response = ::http::Response<R>>,
    S::Future: Send + 'static,
    S::Error: Send + std::fmt::Display + 'static,
    R: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: ::http::Request<B>) -> Self::Future {
        let parent = match self.layer.hop.carry(extract(request.headers())) {
            Some(parent) => Parent::Remote(parent),
            None if self.layer.roots => Parent::Root,
            None => return Box::pin(self.inner.call(request)),
        };
        let span = rpc_span(request.uri().path(), Kind::Server, parent);
        let answer = self.inner.call(request).instrument(span.clone());
        Box::pin(async move {
            let answer = answer.await;
            note_status(&span, &answer, Kind::Server);
            answer
        })
    }
}

// === impl ClientTrace ===

impl<S> Layer<S> for ClientTrace {
    type Service = ClientTraceService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        ClientTraceService { inner, layer: *self }
    }
}

impl<S, B, R> Service<::http::Request<B>> for ClientTraceService<S>
where
    S: Service<::http::Request<B>, Response = ::http::Response<R>>,
    S::Future: Send + 'static,
    S::Error: Send + std::fmt::Display + 'static,
    R: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: ::http::Request<B>) -> Self::Future {
        let Some(caller) = current() else {
            return Box::pin(self.inner.call(request));
        };
        if !self.layer.spans {
            if let Some(parent) = self.layer.hop.carry(Some(caller)) {
                set(request.headers_mut(), parent);
            }
            return Box::pin(self.inner.call(request));
        }
        let span = rpc_span(request.uri().path(), Kind::Client, Parent::Current);
        if let Some(parent) = self.layer.hop.carry(span.trace_parent()) {
            set(request.headers_mut(), parent);
        }
        let answer = self.inner.call(request).instrument(span.clone());
        Box::pin(async move {
            let answer = answer.await;
            note_status(&span, &answer, Kind::Client);
            answer
        })
    }
}

// === spans ===

fn rpc_span(path: &str, kind: Kind, parent: Parent) -> tracing::Span {
    let (service, method) = split(path);
    span(name(service, method))
        .kind(kind)
        .parent(parent)
        .attribute("rpc.system", "grpc")
        .attribute("rpc.service", service.to_owned())
        .attribute("rpc.method", method.to_owned())
        .start()
}

/// `/etcdserverpb.KV/Txn` is service `etcdserverpb.KV`, method `Txn`.
fn split(path: &str) -> (&str, &str) {
    path.trim_start_matches('/').split_once('/').unwrap_or(("", path))
}

/// The span's name: the service without its package, in lower case, and the method: `kv.Txn`.
fn name(service: &str, method: &str) -> String {
    let service = service.rsplit('.').next().unwrap_or(service).to_ascii_lowercase();
    if service.is_empty() { method.to_owned() } else { format!("{service}.{method}") }
}

/// Codes that are a server's fault; of a client's span every code but OK is a failure.
const SERVER_FAULTS: [tonic::Code; 6] = [
    tonic::Code::Unknown,
    tonic::Code::DeadlineExceeded,
    tonic::Code::Unimplemented,
    tonic::Code::Internal,
    tonic::Code::Unavailable,
    tonic::Code::DataLoss,
];

fn note_status<R, E: std::fmt::Display>(span: &tracing::Span, answer: &Result<::http::Response<R>, E>, kind: Kind) {
    match answer {
        Ok(response) => {
            // An error without a message comes in the head; one after a message comes in trailers, which end the stream.
            let Some(status) = tonic::Status::from_header_map(response.headers()) else { return };
            let code = status.code();
            span.attribute("rpc.grpc.status_code", i64::from(i32::from(code)));
            let fails = code != tonic::Code::Ok && (kind == Kind::Client || SERVER_FAULTS.contains(&code));
            if fails {
                span.fail(format!("{code:?}: {}", status.message()));
            }
        }
        Err(error) => span.fail(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(split("/etcdserverpb.KV/Txn"), ("etcdserverpb.KV", "Txn"));
        assert_eq!(name("etcdserverpb.KV", "Txn"), "kv.Txn");
        assert_eq!(name("runtime.v1.RuntimeService", "RunPodSandbox"), "runtimeservice.RunPodSandbox");
        assert_eq!(split("odd"), ("", "odd"));
    }
}
