//! The service: its ports and what runs behind them.
use std::sync::Arc;

use tokio::net::TcpListener;
use tonic::service::Routes;
use tonic::transport::Server;
use trireme_bus::Bus;
use trireme_service::health::Scope;
use trireme_service::tasks::OnPanic;
use trireme_service::tls::{self, Authorities, ClientAuth, Identity};
use trireme_service::{CancellationToken, Context};
use trireme_telemetry::Hop;
use url::Url;

use crate::config::Config;
use crate::data_dir::DataDir;
use crate::error::{Error, Result};
use crate::raft::{Node, PeerService, Settings};
use crate::{api, metrics_task, publish};

/// Runs the store until the context is cancelled.
pub async fn run(config: Config, context: Context) -> Result<()> {
    let cluster = config.cluster()?;
    if cluster.members.len() % 2 == 0 {
        tracing::warn!(
            members = cluster.members.len(),
            "an even number of members survives no more deaths than one less"
        );
    }
    let data_dir = config.data_dir();
    let held = DataDir::open(&data_dir, cluster.id, cluster.me)?;
    let client_tls = server_tls(&config.cert_file, &config.key_file, &config.trusted_ca_file, config.client_cert_auth)?;
    let peer_ca = &config.peer_trusted_ca_file;
    let peer_tls = server_tls(&config.peer_cert_file, &config.peer_key_file, peer_ca, config.peer_client_cert_auth)?;
    let clients = listen(&config.listen_client_urls, client_tls.is_some()).await?;
    let peers = listen(&config.listen_peer_urls, peer_tls.is_some()).await?;

    let mut me = cluster.members.get(&cluster.me).cloned().unwrap_or_default();
    me.client_urls = config.client_urls();
    let settings = Settings {
        data_dir,
        id: cluster.me,
        cluster_id: cluster.id,
        me,
        members: cluster.members,
        heartbeat: std::time::Duration::from_millis(config.heartbeat_interval),
        election: std::time::Duration::from_millis(config.election_timeout),
        tls: peer_client_tls(&config)?,
    };
    let node = Node::start(settings, &context.tasks).await?;
    let peer_routes = Routes::new(PeerService::server(node.clone()));
    for listener in peers {
        serve(&context, "peer-port", listener, peer_tls.clone(), peer_routes.clone());
    }
    node.initialize().await?;
    add_health(&context, &node);
    let api_settings = api::Settings {
        quota: config.quota(),
        progress_interval: config.watch_progress_notify_interval,
        min_ttl: config.min_ttl(),
    };
    let routes = api::routes(node.clone(), api_settings);
    for listener in clients {
        serve(&context, "client-port", listener, client_tls.clone(), routes.clone());
    }
    let metrics = metrics_task::run(node.clone(), config.quota());
    context.tasks.spawn_until_shutdown("metrics", OnPanic::Log, metrics);
    if let Some(options) = config.bus.options(format!("store {}", config.name)) {
        let bus = Bus::nats(&options).await.map_err(bad)?;
        let election = std::time::Duration::from_millis(config.election_timeout);
        context.tasks.spawn_until_shutdown("publisher", OnPanic::Log, publish::run(node.clone(), bus, election));
    }
    for url in &config.listen_metrics_urls {
        context.serve_pages(&address(url)?, None).await.map_err(|e| Error::Config(e.to_string()))?;
    }
    if config.listen_metrics_urls.is_empty() {
        context.serve_pages("", None).await.map_err(|e| Error::Config(e.to_string()))?;
    }

    let outcome = tokio::select! {
        () = context.shutdown.cancelled() => Ok(()),
        // Without the log this process is of no use; a new one may find the disk in order again.
        reason = node.ended() => Err(Error::Ended(format!("raft has ended: {reason}"))),
    };
    node.stop().await;
    drop(held);
    outcome
}

fn add_health(context: &Context, node: &Node) {
    let live = node.clone();
    context.health.add("raft", Scope::Live, move || {
        let running = live.is_running();
        async move { if running { Ok(()) } else { Err("raft has ended".to_owned()) } }
    });
    let ready = node.clone();
    context.health.add("linearizable-read", Scope::Ready, move || {
        let node = ready.clone();
        async move { node.read_index().await.map(drop).map_err(|e| e.to_string()) }
    });
}

fn serve(
    context: &Context,
    name: &'static str,
    listener: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    routes: Routes,
) {
    if let Ok(address) = listener.local_addr() {
        tracing::info!(%address, tls = tls.is_some(), "{name} serves");
    }
    let shutdown: CancellationToken = context.shutdown.clone();
    let server = Server::builder()
        .tcp_nodelay(true)
        .http2_keepalive_interval(Some(std::time::Duration::from_secs(30)))
        .initial_stream_window_size(4 << 20)
        .initial_connection_window_size(16 << 20)
        .max_concurrent_streams(None)
        .layer(trireme_telemetry::grpc::server_layer(Hop::Store))
        .add_routes(routes);
    context.tasks.spawn(name, OnPanic::Shutdown, async move {
        let incoming = tls::incoming(listener, tls);
        let served = server.serve_with_incoming_shutdown(incoming, shutdown.clone().cancelled_owned());
        // Streams never end by themselves, so the end does not wait for them.
        tokio::select! {
            result = served => if let Err(error) = result {
                tracing::error!(%error, "{name} ended");
                shutdown.cancel();
            },
            () = shutdown.cancelled() => {}
        }
    });
}

fn address(url: &Url) -> Result<String> {
    let host = url.host_str().ok_or_else(|| Error::Config(format!("{url}: has no host")))?;
    let port = url.port_or_known_default().ok_or_else(|| Error::Config(format!("{url}: has no port")))?;
    Ok(format!("{host}:{port}"))
}

async fn listen(urls: &[Url], tls: bool) -> Result<Vec<TcpListener>> {
    let mut listeners = Vec::new();
    for url in urls {
        match url.scheme() {
            "https" if !tls => return Err(Error::Config(format!("{url}: there is no certificate for https"))),
            "http" if tls => {
                return Err(Error::Config(format!("{url}: a certificate is given, so it has to be https")));
            }
            "http" | "https" => {}
            other => return Err(Error::Config(format!("{url}: {other} is not served"))),
        }
        let address = address(url)?;
        let listener = TcpListener::bind(&address).await;
        listeners.push(listener.map_err(|e| Error::Config(format!("cannot listen at {address}: {e}")))?);
    }
    Ok(listeners)
}

type File = Option<std::path::PathBuf>;

fn bad(error: impl ToString) -> Error {
    Error::Config(error.to_string())
}

fn server_tls(cert: &File, key: &File, ca: &File, required: bool) -> Result<Option<Arc<rustls::ServerConfig>>> {
    let (cert, key) = match (cert, key) {
        (Some(cert), Some(key)) => (cert, key),
        (None, None) if !required => return Ok(None),
        _ => return Err(Error::Config("certificate and key belong together".into())),
    };
    let identity = Identity::from_files(cert, key).map_err(bad)?;
    let clients = match ca {
        Some(ca) => ClientAuth::Required(Authorities::from_file(ca).map_err(bad)?),
        None if required => {
            return Err(Error::Config("client certificates are required, but there is no CA file".into()));
        }
        None => ClientAuth::None,
    };
    tls::server_config(&identity, &clients, tls::ALPN_H2).map(Some).map_err(bad)
}

fn peer_client_tls(config: &Config) -> Result<Option<Arc<rustls::ClientConfig>>> {
    let (Some(cert), Some(key), Some(ca)) =
        (&config.peer_cert_file, &config.peer_key_file, &config.peer_trusted_ca_file)
    else {
        return Ok(None);
    };
    let identity = Identity::from_files(cert, key).map_err(bad)?;
    let authorities = Authorities::from_file(ca).map_err(bad)?;
    tls::client_config(&authorities, Some(&identity), tls::ALPN_H2).map(Some).map_err(bad)
}
