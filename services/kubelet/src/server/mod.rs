//! The kubelet's port: logs, exec, attach, port-forward, Pods, metrics.
//!
//! Nobody is anonymous here, whatever the path is: a client shows a certificate of the cluster's CA or a token
//! (TokenReview), and may do what a SubjectAccessReview on `nodes/<subresource>` allows. `/healthz` is no exception, as
//! it is none of upstream's port 10250; what upstream answers to everybody on `--healthz-port` is in [`healthz`].

mod access;
mod bridge;
mod forward;
pub mod healthz;
mod log_watch;
pub mod logs;
mod outcome;
mod remote;
mod spdy;
mod stats;
mod websocket;

use crate::config::Config;
use crate::cri::Cri;
use crate::cri::state::Stage;
use crate::error::{Error, Result};
use crate::host::Host;
use crate::manager::{Manager, Query};
use crate::pod::view;
use access::{Access, Caller};
use actix_web::dev::ServerHandle;
use actix_web::http::header::ContentType;
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use k8s_openapi::api::core::v1::Pod;
use logs::{Options, Window};
use std::net::TcpListener;
use std::sync::Arc;
use trireme_service::actor::Address;
use trireme_service::health::Health;
use trireme_service::tls::{self, Authorities, ClientAuth, Identity};

/// What the handlers work with.
#[derive(Clone)]
pub struct State {
    host: Arc<Host>,
    manager: Address<Manager>,
    access: Access,
    health: Health,
}

/// Binds the port; a port of 0 is chosen by the system.
pub fn bind(config: &Config) -> Result<(TcpListener, u16)> {
    let address = (config.address.as_str(), config.port);
    let failed = |error: std::io::Error| {
        Error::Config(format!(
            "cannot serve at {}:{}: {error}; choose another with --port",
            config.address, config.port
        ))
    };
    let listener = TcpListener::bind(address).map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    Ok((listener, port))
}

/// Serves until the handle is stopped. To be called inside an actix system.
pub fn serve(
    host: Arc<Host>,
    manager: Address<Manager>,
    health: Health,
    listener: TcpListener,
) -> Result<(ServerHandle, impl Future<Output = std::io::Result<()>> + use<>)> {
    let identity = identity(&host.config)?;
    let wrong = |error: trireme_service::Error| Error::Config(error.to_string());
    let clients = match &host.config.client_ca {
        Some(file) => ClientAuth::Optional(Authorities::from_file(file).map_err(wrong)?),
        None => ClientAuth::None,
    };
    let tls = tls::server_config(&identity, &clients, &["http/1.1"]).map_err(wrong)?;
    let access = Access::new(&host.config.node_name, host.api.reviews.clone());
    let state = State { host, manager, access, health };
    let server = HttpServer::new(move || {
        App::new()
            .app_data(web::Data::new(state.clone()))
            .default_service(web::to(unknown))
            .route("/healthz", web::get().to(page))
            .route("/healthz/{check}", web::get().to(page))
            .route("/pods", web::get().to(pods))
            .route("/pods/", web::get().to(pods))
            .route("/metrics", web::get().to(metrics))
            .route("/debug/spans", web::get().to(page))
            .route("/livez", web::get().to(page))
            .route("/readyz", web::get().to(page))
            .route("/stats/summary", web::get().to(stats))
            .route("/containerLogs/{namespace}/{pod}/{container}", web::get().to(container_logs))
            .route("/exec/{namespace}/{pod}/{container}", web::route().to(exec))
            .route("/exec/{namespace}/{pod}/{uid}/{container}", web::route().to(exec))
            .route("/attach/{namespace}/{pod}/{container}", web::route().to(attach))
            .route("/attach/{namespace}/{pod}/{uid}/{container}", web::route().to(attach))
            .route("/portForward/{namespace}/{pod}", web::route().to(port_forward))
            .route("/portForward/{namespace}/{pod}/{uid}", web::route().to(port_forward))
            .route("/run/{namespace}/{pod}/{container}", web::post().to(run))
    })
    .workers(1)
    .disable_signals()
    .shutdown_timeout(1)
    .on_connect(access::note_peer)
    .listen_rustls_0_23(listener, (*tls).clone())
    .map_err(|error| Error::Config(error.to_string()))?
    .run();
    Ok((server.handle(), server))
}

/// The certificate to serve with; one that is made here is good for encryption only.
fn identity(config: &Config) -> Result<Identity> {
    let wrong = |error: trireme_service::Error| Error::Config(error.to_string());
    if let Some((cert, key)) = &config.tls {
        return Identity::from_files(cert, key).map_err(wrong);
    }
    let made = rcgen::generate_simple_self_signed(vec![config.node_name.clone()])
        .map_err(|error| Error::Config(format!("no certificate could be made: {error}")))?;
    Identity::from_pem(made.cert.pem().as_bytes(), made.signing_key.serialize_pem().as_bytes()).map_err(wrong)
}

type Data = web::Data<State>;

/// Lets a caller in, or answers.
async fn admit(state: &State, request: &HttpRequest) -> std::result::Result<Caller, HttpResponse> {
    state.access.check(request).await.map_err(|refusal| {
        HttpResponse::build(refusal.code()).content_type(ContentType::plaintext()).body(refusal.to_string())
    })
}

macro_rules! admitted {
    ($state:expr, $request:expr) => {
        if let Err(refusal) = admit(&$state, &$request).await {
            return refusal;
        }
    };
}

fn text(code: u16, body: impl Into<String>) -> HttpResponse {
    let code =
        actix_web::http::StatusCode::from_u16(code).unwrap_or(actix_web::http::StatusCode::INTERNAL_SERVER_ERROR);
    HttpResponse::build(code).content_type(ContentType::plaintext()).body(body.into())
}

async fn unknown(state: Data, request: HttpRequest) -> HttpResponse {
    admitted!(state, request);
    text(404, "404 page not found\n")
}

async fn page(state: Data, request: HttpRequest) -> HttpResponse {
    admitted!(state, request);
    match trireme_service::pages::answer(&state.health, request.path(), request.query_string()).await {
        Some(page) => {
            let code = actix_web::http::StatusCode::from_u16(page.status).unwrap_or_default();
            HttpResponse::build(code).content_type(page.content_type).body(page.body)
        }
        None => text(404, "404 page not found\n"),
    }
}

async fn metrics(state: Data, request: HttpRequest) -> HttpResponse {
    page(state, request).await
}

async fn pods(state: Data, request: HttpRequest) -> HttpResponse {
    admitted!(state, request);
    let items: Vec<Pod> = match state.manager.send(Query::All).await {
        Ok(pods) => pods.into_iter().map(|pod| (*pod).clone()).collect(),
        Err(error) => return text(500, error.to_string()),
    };
    let list = k8s_openapi::List { items, metadata: Default::default() };
    HttpResponse::Ok().json(list)
}

async fn stats(state: Data, request: HttpRequest) -> HttpResponse {
    admitted!(state, request);
    match stats::summary(&state.host).await {
        Ok(summary) => HttpResponse::Ok().json(summary),
        Err(error) => text(500, error.to_string()),
    }
}

/// Parts of a path.
#[derive(Debug, serde::Deserialize)]
struct Place {
    namespace: String,
    pod: String,
    #[serde(default)]
    uid: Option<String>,
    #[serde(default)]
    container: String,
}

async fn find(state: &State, place: &Place) -> std::result::Result<Arc<Pod>, HttpResponse> {
    let query = Query::Find { namespace: place.namespace.clone(), name: place.pod.clone(), uid: place.uid.clone() };
    match state.manager.send(query).await {
        Ok(found) => {
            found.into_iter().next().ok_or_else(|| text(404, format!("pod \"{}\" does not exist\n", place.pod)))
        }
        Err(error) => Err(text(500, error.to_string())),
    }
}

/// The id of a running container.
async fn running(cri: &Cri, pod: &Pod, container: &str) -> std::result::Result<String, HttpResponse> {
    let state = cri.pod_state(view::uid(pod)).await.map_err(|error| text(500, error.to_string()))?;
    match state.latest(container) {
        Some(run) if run.stage == Stage::Running => Ok(run.id.clone()),
        Some(_) => Err(text(500, format!("container \"{container}\" in pod \"{}\" is not running", view::name(pod)))),
        None => Err(text(404, format!("container not found (\"{container}\")"))),
    }
}

async fn container_logs(
    state: Data,
    request: HttpRequest,
    place: web::Path<Place>,
    query: web::Query<logs::Parameters>,
) -> HttpResponse {
    admitted!(state, request);
    let pod = match find(&state, &place).await {
        Ok(pod) => pod,
        Err(answer) => return answer,
    };
    if view::container(&pod, &place.container).is_none() {
        return text(404, format!("container \"{}\" not found in pod \"{}\"\n", place.container, place.pod));
    }
    let options = match Options::of(&query) {
        Ok(options) => options,
        Err(problem) => return text(422, problem),
    };
    let window = match Window::find(&state.host.cri, &pod, &place.container, query.previous()).await {
        Ok(window) => window,
        Err(problem) => return text(400, problem),
    };
    let stream = logs::stream(state.host.cri.clone(), window, options);
    HttpResponse::Ok().content_type("text/plain; charset=utf-8").streaming(stream)
}

async fn exec(state: Data, request: HttpRequest, body: web::Payload, place: web::Path<Place>) -> HttpResponse {
    admitted!(state, request);
    let target = async {
        remote::check(&request)?;
        let pod = find(&state, &place).await?;
        running(&state.host.cri, &pod, &place.container).await
    };
    match target.await {
        Ok(id) => remote::exec(&state.host.cri, &request, body, id).await,
        Err(answer) => answer,
    }
}

async fn attach(state: Data, request: HttpRequest, body: web::Payload, place: web::Path<Place>) -> HttpResponse {
    admitted!(state, request);
    let target = async {
        remote::check(&request)?;
        let pod = find(&state, &place).await?;
        let tty = view::container(&pod, &place.container).is_some_and(|(_, container)| container.tty == Some(true));
        Ok::<_, HttpResponse>((running(&state.host.cri, &pod, &place.container).await?, tty))
    };
    match target.await {
        Ok((id, tty)) => remote::attach(&state.host.cri, &request, body, id, tty).await,
        Err(answer) => answer,
    }
}

async fn port_forward(state: Data, request: HttpRequest, body: web::Payload, place: web::Path<Place>) -> HttpResponse {
    admitted!(state, request);
    let wanted = match remote::check_ports(&request) {
        Ok(()) => find(&state, &place).await,
        Err(answer) => Err(answer),
    };
    let pod = match wanted {
        Ok(pod) => pod,
        Err(answer) => return answer,
    };
    let pod_state = match state.host.cri.pod_state(view::uid(&pod)).await {
        Ok(pod_state) => pod_state,
        Err(error) => return text(500, error.to_string()),
    };
    match pod_state.sandboxes.first().filter(|sandbox| sandbox.ready) {
        Some(sandbox) => remote::port_forward(&state.host.cri, &request, body, sandbox.id.clone()).await,
        None => text(500, format!("pod \"{}\" has no sandbox that is ready", place.pod)),
    }
}

#[derive(Debug, serde::Deserialize)]
struct Command {
    #[serde(default)]
    cmd: String,
}

async fn run(state: Data, request: HttpRequest, place: web::Path<Place>, query: web::Query<Command>) -> HttpResponse {
    admitted!(state, request);
    let target = async {
        let pod = find(&state, &place).await?;
        running(&state.host.cri, &pod, &place.container).await
    };
    let id = match target.await {
        Ok(id) => id,
        Err(answer) => return answer,
    };
    let words: Vec<String> = query.cmd.split(' ').map(str::to_owned).collect();
    match state.host.cri.exec_sync(&id, &words, std::time::Duration::ZERO).await {
        Ok(answer) => {
            let mut output = answer.stdout.to_vec();
            output.extend_from_slice(&answer.stderr);
            HttpResponse::Ok().body(output)
        }
        Err(error) => text(500, error.to_string()),
    }
}
