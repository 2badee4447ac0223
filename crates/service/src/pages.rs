//! The pages that operators and machines read: health, metrics, recent spans; and a small server for them.
//!
//! A service with an HTTP server of its own mounts [`answer`] there; the others let [`serve`] listen.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use trireme_telemetry::spans::Recent;

use crate::health::Health;
use crate::process;

/// How many connections are served at a time; more wait.
const CONNECTIONS: usize = 64;
/// How long a client may take for its TLS handshake and the head of its request.
const PATIENCE: Duration = Duration::from_secs(10);

/// An answer of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// HTTP status.
    pub status: u16,
    /// Media type.
    pub content_type: &'static str,
    /// Body.
    pub body: String,
}

impl Page {
    /// A page of plain text.
    pub fn text(status: u16, body: impl Into<String>) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: body.into() }
    }
}

/// TLS of the pages.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The server's configuration.
    pub config: Arc<rustls::ServerConfig>,
    /// Metrics and spans are only for clients that showed a certificate which the configuration accepts.
    pub private: bool,
}

/// The page at `path`, or none if it is none of: `/livez`, `/readyz`, `/healthz` (each with `/<check>`), `/metrics`,
/// `/debug/spans` (`?trace=<id>`).
pub async fn answer(health: &Health, path: &str, query: &str) -> Option<Page> {
    match path {
        "/metrics" => Some(metrics()),
        "/debug/spans" => Some(spans(query)),
        _ => health.answer(path, query).await,
    }
}

/// The metrics of this process.
#[must_use]
pub fn metrics() -> Page {
    let body = format!(
        "{}{}# TYPE trireme_build_info gauge\ntrireme_build_info{{version=\"{}\"}} 1\n",
        trireme_telemetry::metrics_text(),
        process::metrics(),
        env!("CARGO_PKG_VERSION")
    );
    Page { status: 200, content_type: "text/plain; version=0.0.4; charset=utf-8", body }
}

fn spans(query: &str) -> Page {
    let trace =
        url::form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == "trace").map(|(_, id)| id.into_owned());
    let spans = Recent::global().spans(trace.as_deref());
    match serde_json::to_string(&spans) {
        Ok(body) => Page { status: 200, content_type: "application/json", body },
        Err(error) => Page::text(500, format!("internal server error: {error}\n")),
    }
}

/// Serves the pages until `shutdown`, over TLS if it is given. Health is for all.
pub async fn serve(listener: TcpListener, tls: Option<Tls>, health: Health, shutdown: CancellationToken) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.cancelled() => return,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of files, most likely: the next accept fails the same way until some are closed.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (tls, health, shutdown) = (tls.clone(), health.clone(), shutdown.clone());
        tokio::spawn(async move {
            let _slot = slot;
            tokio::select! {
                () = connection(stream, peer, tls, health) => {}
                () = shutdown.cancelled() => {}
            }
        });
    }
}

async fn connection(stream: TcpStream, peer: SocketAddr, tls: Option<Tls>, health: Health) {
    let result = match tls {
        None => http(TokioIo::new(stream), health, true).await.map_err(|error| error.to_string()),
        Some(Tls { config, private }) => {
            match tokio::time::timeout(PATIENCE, TlsAcceptor::from(config).accept(stream)).await {
                Ok(Ok(stream)) => {
                    let known =
                        !private || stream.get_ref().1.peer_certificates().is_some_and(|chain| !chain.is_empty());
                    http(TokioIo::new(stream), health, known).await.map_err(|error| error.to_string())
                }
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err("no TLS handshake in time".to_owned()),
            }
        }
    };
    if let Err(error) = result {
        tracing::debug!(%peer, error, "connection to the pages failed");
    }
}

async fn http<I>(stream: TokioIo<I>, health: Health, known: bool) -> hyper::Result<()>
where
    I: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let health = health.clone();
        async move { Ok::<_, Infallible>(respond(&request, &health, known).await) }
    });
    hyper::server::conn::http1::Builder::new()
        .timer(hyper_util::rt::TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(stream, service)
        .await
}

async fn respond(request: &Request<hyper::body::Incoming>, health: &Health, known: bool) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    let query = request.uri().query().unwrap_or("");
    let private = matches!(path, "/metrics" | "/debug/spans");
    let page = if request.method() != Method::GET && request.method() != Method::HEAD {
        Page::text(405, "method not allowed\n")
    } else if private && !known {
        Page::text(403, "a client certificate is needed for this page\n")
    } else {
        answer(health, path, query).await.unwrap_or_else(|| Page::text(404, "404 page not found\n"))
    };
    let body = if request.method() == Method::HEAD { String::new() } else { page.body };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = StatusCode::from_u16(page.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert("content-type", hyper::header::HeaderValue::from_static(page.content_type));
    headers.insert("x-content-type-options", hyper::header::HeaderValue::from_static("nosniff"));
    response
}
