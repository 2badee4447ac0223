//! The pages that operators and machines read: health, metrics, recent spans; and a small server for them.
//!
//! A service with an HTTP server of its own mounts [`answer`] there; the others let [`serve`] listen.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use trireme_telemetry::spans::Recent;

use crate::health::Health;
use crate::newest::Newest;
use crate::process;

/// How many connections there are at a time; of more, the oldest ends.
const CONNECTIONS: usize = 256;
/// How many clients read metrics and spans at a time, which are large. Who asks for health needs no such slot.
const READERS: usize = 64;
/// How long a client may take for its TLS handshake and the head of its request.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a client may take for its request and the whole answer.
const LIFE: Duration = Duration::from_secs(30);

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
    let mut connections = Newest::new(CONNECTIONS);
    let readers = Arc::new(Semaphore::new(READERS));
    loop {
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
        let (tls, shutdown) = (tls.clone(), shutdown.clone());
        let visit = Visit { health: health.clone(), known: true, readers: Arc::clone(&readers), slot: Arc::default() };
        connections.spawn(async move {
            tokio::select! {
                () = connection(stream, peer, tls, visit) => {}
                () = shutdown.cancelled() => {}
            }
        });
    }
}

/// What one connection is answered with.
#[derive(Clone)]
struct Visit {
    health: Health,
    /// Whether the client may see what is private.
    known: bool,
    readers: Arc<Semaphore>,
    /// Its place among the readers of large pages, until the connection ends.
    slot: Arc<OnceLock<OwnedSemaphorePermit>>,
}

async fn connection(stream: TcpStream, peer: SocketAddr, tls: Option<Tls>, mut visit: Visit) {
    let served = async {
        let Some(Tls { config, private }) = tls else {
            visit.known = stream.local_addr().is_ok_and(|local| of_this_machine(peer.ip(), local.ip()));
            return http(stream, visit).await;
        };
        let stream = tokio::time::timeout(PATIENCE, TlsAcceptor::from(config).accept(stream))
            .await
            .map_err(|_| "no TLS handshake in time".to_owned())?
            .map_err(|error| error.to_string())?;
        visit.known = !private || stream.get_ref().1.peer_certificates().is_some_and(|chain| !chain.is_empty());
        http(stream, visit).await
    };
    if let Err(error) = served.await {
        tracing::debug!(%peer, error, "connection to the pages failed");
    }
}

/// Without TLS nobody can say who he is: metrics and spans, which name objects, are for callers on this machine only.
fn of_this_machine(peer: IpAddr, local: IpAddr) -> bool {
    peer.is_loopback() || peer == local
}

/// Answers one request. The connection is not kept for others: what its client may take is counted from its beginning.
async fn http<I>(stream: I, visit: Visit) -> Result<(), String>
where
    I: AsyncRead + AsyncWrite + Unpin,
{
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let visit = visit.clone();
        async move { Ok::<_, Infallible>(respond(&request, &visit).await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .keep_alive(false)
        .timer(hyper_util::rt::TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(TokioIo::new(stream), service);
    match tokio::time::timeout(LIFE, served).await {
        Ok(served) => served.map_err(|error| error.to_string()),
        Err(_) => Err("it took too long".to_owned()),
    }
}

async fn respond(request: &Request<hyper::body::Incoming>, visit: &Visit) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    let query = request.uri().query().unwrap_or("");
    let private = matches!(path, "/metrics" | "/debug/spans");
    let page = if request.method() != Method::GET && request.method() != Method::HEAD {
        Page::text(405, "method not allowed\n")
    } else if private && !visit.known {
        Page::text(403, "this page needs a client certificate, or over plain HTTP a caller on this machine\n")
    } else if private && !visit.takes_slot() {
        Page::text(503, "too many clients read this page\n")
    } else {
        answer(&visit.health, path, query).await.unwrap_or_else(|| Page::text(404, "404 page not found\n"))
    };
    let body = if request.method() == Method::HEAD { String::new() } else { page.body };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = StatusCode::from_u16(page.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert("content-type", hyper::header::HeaderValue::from_static(page.content_type));
    headers.insert("x-content-type-options", hyper::header::HeaderValue::from_static("nosniff"));
    response
}

impl Visit {
    fn takes_slot(&self) -> bool {
        let Ok(slot) = Arc::clone(&self.readers).try_acquire_owned() else { return false };
        self.slot.set(slot).is_ok()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

    use super::*;

    fn visit(readers: &Arc<Semaphore>) -> Visit {
        let health = Health::new(CancellationToken::new());
        Visit { health, known: true, readers: Arc::clone(readers), slot: Arc::default() }
    }

    #[test]
    fn over_plain_http_only_this_machine_reads_what_names_objects() {
        let is = |peer: &str, local: &str| of_this_machine(peer.parse().unwrap(), local.parse().unwrap());
        assert!(is("127.0.0.1", "127.0.0.1") && is("10.200.1.1", "10.200.1.1") && is("::1", "::1"));
        assert!(!is("10.244.0.7", "10.200.1.1") && !is("192.0.2.1", "0.0.0.0"));
    }

    /// A client that asks, whose connection holds 64 bytes of the answer until it reads.
    async fn ask(path: &str, readers: &Arc<Semaphore>) -> DuplexStream {
        let (mut client, server) = tokio::io::duplex(64);
        tokio::spawn(http(server, visit(readers)));
        client.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
        client
    }

    async fn read(mut client: DuplexStream) -> String {
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn readers_that_sleep_keep_nobody_from_health() {
        let readers = Arc::new(Semaphore::new(2));
        let mut asleep = Vec::new();
        for _ in 0..2 {
            let mut client = ask("/metrics", &readers).await;
            // It begins to read, so that the answer has begun.
            client.read_u8().await.unwrap();
            asleep.push(client);
        }
        assert!(read(ask("/metrics", &readers).await).await.starts_with("HTTP/1.1 503 "));
        assert!(read(ask("/livez", &readers).await).await.ends_with("\r\n\r\nok"));
        drop(asleep);
        // Their places are free when their connections have ended.
        assert!(tokio::time::timeout(PATIENCE, readers.acquire_many(2)).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_read_in_time_or_not_at_all() {
        let readers = Arc::new(Semaphore::new(1));
        let (mut client, server) = tokio::io::duplex(64);
        let served = tokio::spawn(http(server, visit(&readers)));
        client.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        // It reads, but a byte at a time and with all the time there is.
        let reading = async {
            while client.read_u8().await.is_ok() {
                tokio::time::sleep(PATIENCE / 2).await;
            }
        };
        tokio::time::timeout(2 * LIFE, reading).await.unwrap_err();
        assert!(served.is_finished());
        assert!(served.await.unwrap().is_err());
        assert_eq!(readers.available_permits(), 1);
    }
}
