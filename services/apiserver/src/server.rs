//! Putting the parts together: start, and an orderly stop.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::sync::mpsc;
use trireme_bus::Bus;
use trireme_kinds::Registry;
use trireme_service::tasks::OnPanic;
use trireme_service::tls::{self, ClientAuth, Identity};

use crate::cache::Actor;
use crate::config::Config;
use crate::duties::services::reservation_kind;
use crate::pipeline::Engine;
use crate::pipeline::audit::Audit;
use crate::pipeline::engine::Foundation;
use crate::pipeline::limit::Limits;
use crate::storage::hints::Follower;
use crate::storage::read_index::ReadIndex;
use crate::storage::{Client, Sealing, compactor, follow};
use crate::{assembly, checks, grpc, rest};

/// Steps of the feed that may wait for the cache.
const FEED: usize = 1024;

/// Runs the API server until it is told to stop.
pub async fn run(config: Config, service: trireme_service::Context) -> anyhow::Result<()> {
    config.check()?;
    let config = Arc::new(config);
    let kinds = Arc::new(Registry::builtin().clone());
    let client = Client::new(&config)?;
    let sealing = match &config.encryption_provider_config {
        Some(path) => Sealing::load(path)?,
        None => Sealing::default(),
    };
    let root: Arc<str> = config.etcd_prefix.trim_end_matches('/').into();
    let tasks = &service.tasks;

    let (feed, fed) = mpsc::channel(FEED);
    let (cache, actor) = Actor::new(&kinds, reservation_kind(&kinds), &root, sealing.clone(), fed);
    tasks.spawn_until_shutdown("cache", OnPanic::Shutdown, actor.run());
    let (reads, asking) = ReadIndex::new(client.clone());
    tasks.spawn_until_shutdown("read index", OnPanic::Shutdown, asking);
    match config.bus.options("apiserver") {
        Some(options) => {
            let bus = Bus::nats(&options).await?;
            let (client, root, expected) = (client.clone(), root.to_string(), reads.newest());
            tasks.spawn_until_shutdown("feed", OnPanic::Shutdown, Follower { client, bus, root, feed, expected }.run());
        }
        None => {
            let following = follow::run(client.clone(), root.to_string(), feed);
            tasks.spawn_until_shutdown("feed", OnPanic::Shutdown, following);
        }
    }
    let compact = (client.clone(), config.etcd_compaction_interval);
    tasks.supervise("compactor", move || compactor::run(compact.0.clone(), compact.1));

    let audit = match &config.audit_log_path {
        Some(path) => {
            let (audit, writer) = Audit::to_file(path).await?;
            tasks.spawn("audit", OnPanic::Shutdown, writer);
            Some(audit)
        }
        None => None,
    };
    let engine = Engine::new(Foundation {
        kinds,
        root,
        client: client.clone(),
        cache: cache.clone(),
        reads,
        sealing,
        event_ttl: config.event_ttl,
        trace_window: config.trace_window,
        min_watch: Duration::from_secs(config.min_request_timeout.max(1)),
        request_timeout: config.request_timeout,
        limits: Limits::new(config.max_requests_inflight, config.max_mutating_requests_inflight),
        audit,
        health: service.health.clone(),
        delete_workers: config.delete_collection_workers,
    });

    let listener = std::net::TcpListener::bind(config.rest_address())
        .with_context(|| format!("--bind-address and --secure-port: cannot listen at {}", config.rest_address()))?;
    listener.set_nonblocking(true)?;
    let resources = tokio::net::TcpListener::bind(config.resources_address())
        .await
        .with_context(|| format!("--resources-port: cannot listen at {}", config.resources_address()))?;
    // Port 0: the system chose one, and that is where others have to come.
    let secure_port = listener.local_addr()?.port();
    let config = Arc::new(Config { secure_port, ..(*config).clone() });
    checks::install(&service.health, tasks, &client, &engine);
    let identity = identity(&config)?;
    let connect = assembly::equip(&engine, &config, tasks)?;

    let grpc_tls = tls::server_config(&identity, &ClientAuth::Request, tls::ALPN_H2)?;
    let grpc = grpc::Door::new(engine.clone(), resources, grpc_tls)?;
    let door = rest::Door::open(engine.clone(), connect, listener, &identity)?;
    tracing::info!(https = %door.address, resources = %grpc.address, "the API server listens");
    let shutdown = service.shutdown.clone();
    tasks.spawn("resources", OnPanic::Shutdown, async move {
        if let Err(error) = grpc.run(shutdown).await {
            tracing::error!(%error, "the gRPC door failed");
        }
    });
    let handle = door.handle.clone();
    let shutdown = service.shutdown.clone();
    tokio::select! {
        ended = door.running => ended.context("the HTTPS door failed"),
        () = async move {
            shutdown.cancelled().await;
            // Watches have no end of their own: the door waits for the others and closes.
            handle.stop(true).await;
        } => Ok(()),
    }
}

fn identity(config: &Config) -> anyhow::Result<Identity> {
    match (&config.tls_cert_file, &config.tls_private_key_file) {
        (Some(cert), Some(key)) => Ok(Identity::from_files(cert, key)?),
        _ => anyhow::bail!("--tls-cert-file and --tls-private-key-file are needed (`trireme pki` makes them)"),
    }
}
