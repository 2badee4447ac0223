//! The HTTPS server.

use std::net::{SocketAddr, TcpListener};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use actix_tls::accept::rustls_0_23::TlsStream;
use actix_web::dev::{Extensions, ServerHandle};
use actix_web::http::header;
use actix_web::rt::net::TcpStream;
use actix_web::web::{self, Payload};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer};
use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use rustls_pki_types::CertificateDer;
use trireme_machinery::status::{Reason, Status};
use trireme_service::tls::{self, ClientAuth, Identity};

use super::accept::{self, Form};
use super::encode::Style;
use super::held;
use super::request::{read_body, read_head, wants_websocket};
use super::respond;
use crate::auth::UserInfo;
use crate::pipeline::{Context, Engine, PANICKED, Request, Served};
use crate::tables::IncludeObject;

/// Threads that serve connections.
const WORKERS: usize = 2;
/// How long a connection without requests is kept.
const KEEP_ALIVE: Duration = Duration::from_secs(90);
/// How long the head of a request may take.
const HEAD: Duration = Duration::from_secs(32);
/// How long requests have to end when the server does.
const SHUTDOWN: u64 = 5;

/// Opens streams to a Pod (exec, attach, port-forward, proxy): what the pipeline can't answer with bytes.
pub trait Connect: Send + Sync {
    /// Whether the request is one of these.
    fn wants(&self, request: &Request) -> bool;
    /// Answers it. The caller is known and may do it.
    fn connect(&self, context: Context, http: HttpRequest, payload: Payload) -> LocalBoxFuture<'static, HttpResponse>;
}

/// The door.
pub struct Door {
    /// Where it is.
    pub address: SocketAddr,
    /// To stop it.
    pub handle: ServerHandle,
    /// Runs until it is stopped.
    pub running: LocalBoxFuture<'static, std::io::Result<()>>,
}

/// Who is at the other end of a connection.
pub(super) struct Peer {
    pub(super) address: Option<SocketAddr>,
    pub(super) certificates: Arc<[CertificateDer<'static>]>,
}

#[derive(Clone)]
struct State {
    engine: Engine,
    connect: Option<Arc<dyn Connect>>,
}

// === impl Door ===

impl Door {
    /// Opens the door. It listens when this returns.
    pub fn open(
        engine: Engine,
        connect: Option<Arc<dyn Connect>>,
        listener: TcpListener,
        identity: &Identity,
    ) -> anyhow::Result<Self> {
        let address = listener.local_addr()?;
        let tls = tls::server_config(identity, &ClientAuth::Request, tls::ALPN_HTTP)?;
        let state = State { engine, connect };
        let server = HttpServer::new(move || {
            App::new().app_data(web::Data::new(state.clone())).default_service(web::to(handle))
        })
        .workers(WORKERS)
        .keep_alive(KEEP_ALIVE)
        .client_request_timeout(HEAD)
        .shutdown_timeout(SHUTDOWN)
        .disable_signals()
        .on_connect(note_peer)
        .listen_rustls_0_23(listener, (*tls).clone())?
        .run();
        Ok(Self { address, handle: server.handle(), running: server.boxed_local() })
    }
}

fn note_peer(io: &dyn std::any::Any, data: &mut Extensions) {
    let Some(stream) = io.downcast_ref::<TlsStream<TcpStream>>() else { return };
    let (tcp, tls) = stream.get_ref();
    let certificates = tls.peer_certificates().unwrap_or_default().iter().map(|c| c.clone().into_owned()).collect();
    data.insert(Peer { address: tcp.peer_addr().ok(), certificates });
}

async fn handle(state: web::Data<State>, http: HttpRequest, payload: Payload) -> HttpResponse {
    let mut head = read_head(&http, &state.engine);
    let gzip = accepts_gzip(&http);
    head.gzip = gzip;
    let chunked = http.headers().contains_key(header::TRANSFER_ENCODING);
    let served = AssertUnwindSafe(serve(&state, http, payload, head)).catch_unwind().await;
    match served {
        Ok(Outcome::Answered(response)) => response,
        Ok(Outcome::Served(all)) => {
            let (served, request, style, rest) = *all;
            let response = respond::respond(served, &request, style, gzip);
            if chunked { held(response, rest) } else { response }
        }
        Err(_) => {
            // The panic's own message is in the log.
            let context = Context::new(Default::default(), UserInfo::default());
            let style = style(Form::default());
            respond::refused(&context, &Request::default(), &Status::internal(PANICKED), &style)
        }
    }
}

enum Outcome {
    Answered(HttpResponse),
    /// With what is left of the request's body.
    Served(Box<(Served, Request, Style, Payload)>),
}

async fn serve(state: &State, http: HttpRequest, mut payload: Payload, mut request: Request) -> Outcome {
    let early = async |request: Request, refusal: Status, style: Style, payload: Payload| {
        let served = state.engine.refuse(&request, refusal).await;
        Outcome::Served(Box::new((served, request, style, payload)))
    };
    let list = matches!(request.info.verb.as_str(), "list" | "deletecollection");
    let form = if request.info.is_resource { accept::negotiate(&request.accept, list) } else { Ok(Form::default()) };
    let (mut form, refusal) = match form {
        Ok(form) => (form, None),
        Err(refusal) => (Form::default(), Some(refusal)),
    };
    form.pretty |= wants_pretty(&request);
    let mut style = style(form);
    // What comes back is not ours: any form may be asked for.
    if let Some(connect) = state.connect.as_ref().filter(|connect| connect.wants(&request)) {
        return match state.engine.admit(&request).await {
            Ok(context) => Outcome::Answered(connect.connect(context, http, payload).await),
            Err(served) => Outcome::Served(Box::new((*served, request, style, payload))),
        };
    }
    if let Some(refusal) = refusal {
        return early(request, refusal, style, payload).await;
    }
    match IncludeObject::parse(request.param("includeObject")) {
        Ok(include) => style.include = include,
        Err(refusal) => return early(request, refusal, style, payload).await,
    }
    if request.info.verb == "watch" && wants_websocket(&http) {
        let refusal = Status::failure(403, Reason::Forbidden, "no WebSocket carries a watch here");
        return early(request, refusal, style, payload).await;
    }
    let body = takes_body(&request);
    let body = async { if body { read_body(&http, &mut payload).await } else { Ok(Bytes::new()) } };
    let served = state.engine.serve_with(&mut request, body).await;
    style.now = served.context.now;
    Outcome::Served(Box::new((served, request, style, payload)))
}

/// Whether anybody looks at what comes with a request. Bodies that nobody looks at are not read.
fn takes_body(request: &Request) -> bool {
    let info = &request.info;
    info.is_resource && matches!(info.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection")
}

fn style(form: Form) -> Style {
    Style { form, include: IncludeObject::default(), now: jiff::Timestamp::now() }
}

/// People get line breaks: those who ask for them, and those who come with a browser or curl.
fn wants_pretty(request: &Request) -> bool {
    match request.param("pretty") {
        Some(value) => !matches!(value, "false" | "0"),
        None => ["curl", "Wget", "Mozilla/5.0"].iter().any(|name| request.user_agent.starts_with(name)),
    }
}

fn accepts_gzip(http: &HttpRequest) -> bool {
    let header = http.headers().get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    header.split(',').any(|coding| coding.split(';').next().unwrap_or_default().trim() == "gzip")
}
