//! Trace context in HTTP headers, for both of the `http` crates in use, and middleware for actix-web.

use std::future::{Future, Ready, ready};
use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::Error;
use actix_web::body::MessageBody;
use actix_web::dev::{Service, ServiceRequest, ServiceResponse, Transform};
use tracing::Instrument as _;

use crate::{Hop, Kind, Parent, SpanExt as _, TraceParent, current, span};

/// The header's name.
pub const TRACEPARENT: &str = "traceparent";

/// The caller's span, from the headers of a request (hyper, tonic).
#[must_use]
pub fn extract(headers: &::http::HeaderMap) -> Option<TraceParent> {
    headers.get(TRACEPARENT)?.to_str().ok().and_then(TraceParent::parse)
}

/// The caller's span, from the headers of an actix-web request.
#[must_use]
pub fn extract_actix(headers: &actix_web::http::header::HeaderMap) -> Option<TraceParent> {
    headers.get(TRACEPARENT)?.to_str().ok().and_then(TraceParent::parse)
}

/// Puts the current span's name into the headers of an outgoing request, unless there is none or `hop` is cut.
pub fn inject(hop: Hop, headers: &mut ::http::HeaderMap) {
    if let Some(parent) = hop.carry(current()) {
        set(headers, parent);
    }
}

/// Names `parent` as the caller's span.
pub fn set(headers: &mut ::http::HeaderMap, parent: TraceParent) {
    // Hexadecimal digits and dashes are always a valid header.
    if let Ok(value) = ::http::HeaderValue::try_from(parent.to_string()) {
        headers.insert(TRACEPARENT, value);
    }
}

/// Middleware for actix-web: a request that carries a trace gets a SERVER span named `METHOD pattern`.
///
/// The span ends when the response's head stands, so that of a streamed log or exec does not last as long as the stream.
#[derive(Clone, Debug)]
pub struct ServerTrace {
    hop: Hop,
}

impl ServerTrace {
    /// For requests that arrive over `hop`.
    #[must_use]
    pub fn new(hop: Hop) -> Self {
        Self { hop }
    }
}

impl<S, B> Transform<S, ServiceRequest> for ServerTrace
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error>,
    S::Future: 'static,
    B: MessageBody + 'static,
{
    type Response = ServiceResponse<B>;
    type Error = Error;
    type Transform = ServerTraceService<S>;
    type InitError = ();
    type Future = Ready<Result<Self::Transform, Self::InitError>>;

    fn new_transform(&self, inner: S) -> Self::Future {
        ready(Ok(ServerTraceService { inner, hop: self.hop }))
    }
}

/// What [`ServerTrace`] makes of a service.
#[derive(Debug)]
pub struct ServerTraceService<S> {
    inner: S,
    hop: Hop,
}

impl<S, B> Service<ServiceRequest> for ServerTraceService<S>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error>,
    S::Future: 'static,
    B: MessageBody + 'static,
{
    type Response = ServiceResponse<B>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>>>>;

    fn poll_ready(&self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&self, request: ServiceRequest) -> Self::Future {
        let Some(parent) = self.hop.carry(extract_actix(request.headers())) else {
            return Box::pin(self.inner.call(request));
        };
        let method = request.method().to_string();
        let route = request.match_pattern().unwrap_or_else(|| request.path().to_owned());
        let span = span(format!("{method} {route}"))
            .kind(Kind::Server)
            .parent(Parent::Remote(parent))
            .attribute("http.request.method", method)
            .attribute("http.route", route)
            .attribute("url.path", request.path().to_owned())
            .start();
        let answer = self.inner.call(request).instrument(span.clone());
        Box::pin(async move {
            let answer = answer.await;
            let code = match &answer {
                Ok(response) => response.status(),
                Err(error) => error.as_response_error().status_code(),
            };
            span.attribute("http.response.status_code", i64::from(code.as_u16()));
            if code.is_server_error() {
                span.fail(code.canonical_reason().unwrap_or("server error"));
            }
            answer
        })
    }
}
