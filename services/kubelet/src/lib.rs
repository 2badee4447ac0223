//! The kubelet: Pods on a node over CRI v1.
//!
//! # Parts
//! - [`sources`] tell the [`manager`] which Pods are to be here: the API server (an informer over `spec.nodeName`) and
//!   manifests in a folder.
//! - The [`manager`] is an actor. It gives each Pod to a worker and publishes to it what is wanted ([`pod::sync::Desired`]).
//! - A [`pod::worker`] is an actor, one a Pod. It looks at the runtime, plans ([`pod::plan`], pure), acts, looks again and
//!   makes the status ([`pod::status`], pure). Probes ([`probe`]) are tasks that tell their worker what they find.
//! - The [`pod::report`]er is an actor that writes statuses, so that no worker waits for the API server.
//! - [`pleg`] tells the manager which Pods changed in the runtime; [`node`] keeps the Node and its Lease;
//!   [`server`] is the port.
//!
//! # Invariants
//! - The runtime is the truth about what runs. A worker keeps nothing that it could not find again: after a crash, or a
//!   restart of the kubelet, what runs goes on and is taken over by its labels.
//! - With the API server away, Pods run, are probed and restarted as before; statuses wait, the newest only.
//! - A Pod is deleted from the API only after nothing of it is left here.
//! - Without a kubeconfig the kubelet stands alone and runs static Pods.

pub mod admission;
pub mod api;
pub mod cgroup;
pub mod config;
pub mod cri;
mod defaults;
pub mod error;
pub mod host;
pub mod manager;
pub mod mirror;
pub mod node;
pub mod pleg;
pub mod pod;
pub mod probe;
mod rotation;
pub mod server;
pub mod sources;
pub mod thresholds;
pub mod volumes;

pub use config::{Config, Flags};
pub use error::{Error, Result};

use admission::sysctls::Allowlist;
use api::{Api, Live, Standalone};
use cgroup::{Cgroups, Driver};
use cri::Cri;
use host::Host;
use k8s_openapi::api::core::v1::Service;
use manager::FromRuntime;
use pod::dns::Resolver;
use pod::images::Puller;
use pod::pulled::Records;
use pod::report::Reporter;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use trireme_client::{Client, Informer, Tasks};
use trireme_proto::runtime::v1::CgroupDriver;
use trireme_service::Context;
use trireme_service::health::Scope;
use trireme_service::tasks::OnPanic;
use volumes::VolumeRoot;

/// A runtime that starts together with the kubelet has this long to get there.
const RUNTIME: Duration = Duration::from_secs(30);

/// Runs the kubelet until the process is to end. Pods go on running.
pub async fn run(context: Context, config: Config) -> Result<()> {
    let cri = Cri::wait_for(&config.runtime_endpoint, RUNTIME).await?;
    tracing::info!(runtime = cri.identity().name, version = cri.identity().version, "the runtime speaks CRI v1");
    let volumes = VolumeRoot::open(&config.root_dir)?;
    volumes::make_closed(&config.pod_log_dir)?;
    if let Some(links) = config.container_log_links.clone()
        && let Err(error) = tokio::task::spawn_blocking(move || pod::leftovers::sweep(&links)).await
    {
        tracing::warn!(%error, "links to logs that are gone were not looked for");
    }

    let tasks = Tasks::from(context.tasks.clone());
    let client = connect(&config)?;
    let api = match &client {
        Some(client) => Live::api(client, &config.node_name, &tasks),
        None => Standalone::api(),
    };
    let machine = node::discover(&config)?;
    let driver = driver(&config, &cri).await;
    let cgroups = Cgroups::new(&config.cgroup_root, driver, machine.allocatable)?;
    let (network_told, network) = watch::channel(node::runtime::Condition::default().network);
    let (runtime_told, runtime) = watch::channel(node::runtime::Condition::default());
    // Asked before the first Pod is judged, as one that runs is judged too; `node::runtime` asks again.
    let features = node::runtime::features(&status_of(&cri).await);
    let (features_told, features) = watch::channel(features);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let (look_told, last_look) = watch::channel(None);
    let services = client.as_ref().map(|client| Informer::<Service>::builder(client).start(&tasks));
    let records = Arc::new(Records::open(&config.root_dir, config.verification.clone())?);
    if let Ok(images) = cri.list_images().await {
        records.adopt(&images);
    }
    let (objects, events) = (api.objects.clone(), api.events.clone());
    let host = Arc::new(Host {
        puller: Puller::new(cri.clone(), objects, events, config.parallel_pulls, records),
        reporter: Reporter::start(api.pods.clone()),
        resolver: Resolver {
            cluster_dns: config.cluster_dns.clone(),
            cluster_domain: config.cluster_domain.clone(),
            resolv_conf: config.resolv_conf.clone(),
        },
        volumes,
        cri: cri.clone(),
        api: api.clone(),
        cgroups,
        machine,
        services,
        network,
        features,
        sysctls: Allowlist::new(&kernel, &config.allowed_unsafe_sysctls)?,
        apparmor: admission::apparmor::is_enabled(),
        config,
    });

    let spawn = |name: &'static str, task: futures::future::BoxFuture<'static, ()>| {
        context.tasks.spawn_until_shutdown(name, OnPanic::Shutdown, task);
    };
    spawn("runtime status", Box::pin(node::runtime::ask(cri.clone(), runtime_told, network_told, features_told)));
    let pods = start_pods(&context, &host, client, &tasks, (runtime.clone(), look_told));
    let (listener, port) = server::bind(&host.config)?;
    let (handle, serving) = server::serve(host.clone(), pods, context.health.clone(), listener)?;
    tracing::info!(node = host.config.node_name, port, "serving");
    let server = actix_web::rt::spawn(serving);
    let healthz = actix_web::rt::spawn(server::healthz::serve(host.config.healthz.0, host.config.healthz.1));
    register(&context, &host, &api, port, runtime, last_look);
    // Only where it is asked for: several kubelets may share a machine.
    context.serve_pages("", None).await.map_err(|error| Error::Config(error.to_string()))?;

    context.shutdown.cancelled().await;
    healthz.abort();
    handle.stop(true).await;
    match server.await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Error::Config(format!("the server ended: {error}"))),
        Err(error) => Err(Error::Config(format!("the server ended: {error}"))),
    }
}

/// What the runtime says of itself, when it answers within a few tries.
async fn status_of(cri: &Cri) -> trireme_proto::runtime::v1::StatusResponse {
    for _ in 0..3 {
        match cri.status().await {
            Ok(answer) => return answer,
            Err(error) => tracing::info!(%error, "the runtime does not tell what it can do"),
        }
    }
    Default::default()
}

fn connect(config: &Config) -> Result<Option<Client>> {
    if config.client.kubeconfig.is_none() && config.client.master.is_none() {
        tracing::info!("no --kubeconfig: the kubelet stands alone and runs static Pods only");
        return Ok(None);
    }
    let wrong = |error: trireme_client::Error| Error::Config(error.to_string());
    let client = trireme_client::Config::from_args(&config.client, "kubelet").map_err(wrong)?;
    Client::new(client).map(Some).map_err(wrong)
}

/// The driver as it was said, else as the runtime says, else cgroupfs.
async fn driver(config: &Config, cri: &Cri) -> Driver {
    let of_runtime = cri.cgroup_driver().await.map(|driver| match driver {
        CgroupDriver::Systemd => Driver::Systemd,
        CgroupDriver::Cgroupfs => Driver::Cgroupfs,
    });
    of_runtime.or(config.cgroup_driver).unwrap_or(Driver::Cgroupfs)
}

/// The manager and what feeds it.
fn start_pods(
    context: &Context,
    host: &Arc<Host>,
    client: Option<Client>,
    tasks: &Tasks,
    (runtime, look_told): (watch::Receiver<node::runtime::Condition>, watch::Sender<Option<std::time::Instant>>),
) -> trireme_service::actor::Address<manager::Manager> {
    let config = &host.config;
    let (pods, births) = manager::start(host.clone(), (client.is_some(), config.manifests.is_some()));
    let spawn = |name: &'static str, task: futures::future::BoxFuture<'static, ()>| {
        context.tasks.spawn_until_shutdown(name, OnPanic::Shutdown, task);
    };
    if let Some(client) = client {
        let follow =
            sources::api::follow(client, config.node_name.clone(), tasks.clone(), pods.clone(), births.clone());
        spawn("pods of the API server", Box::pin(follow));
    }
    if let Some(manifests) = config.manifests.clone() {
        let follow = sources::file::follow(manifests, config.node_name.clone(), pods.clone(), births);
        spawn("static pods", Box::pin(follow));
    }
    let (changed, mut changes) = mpsc::channel(64);
    spawn("relist", Box::pin(pleg::relist(host.cri.clone(), changed.clone(), look_told)));
    spawn("container events", Box::pin(pleg::listen(host.cri.clone(), changed, runtime)));
    spawn("log rotation", Box::pin(rotation::keep(host.cri.clone(), config.log_max_bytes, config.log_max_files)));
    let told = pods.clone();
    spawn(
        "runtime changes",
        Box::pin(async move {
            while let Some(change) = changes.recv().await {
                if let Err(error) = told.send(FromRuntime(change)).await {
                    tracing::warn!(%error, "a change of the runtime was lost; the next look finds it");
                }
            }
        }),
    );
    pods
}

/// The node's object and Lease, if there is an API server.
fn register(
    context: &Context,
    host: &Arc<Host>,
    api: &Api,
    port: u16,
    runtime: watch::Receiver<node::runtime::Condition>,
    last_look: pleg::LastLook,
) {
    let ready = context.health.flag("runtime", Scope::Ready);
    let mut watched = runtime.clone();
    context.tasks.spawn_until_shutdown("readiness", OnPanic::Log, async move {
        loop {
            match watched.borrow_and_update().runtime.clone() {
                Ok(()) => ready.pass(),
                Err(why) => ready.fail(why),
            }
            if watched.changed().await.is_err() {
                return;
            }
        }
    });
    let Some(nodes) = api.nodes.clone() else { return };
    let registration = node::Registration {
        config: host.config.clone(),
        machine: host.machine.clone(),
        port,
        cri: host.cri.clone(),
        runtime,
        last_look,
        nodes: nodes.clone(),
        events: api.events.clone(),
    };
    context.tasks.spawn_until_shutdown("node status", OnPanic::Shutdown, registration.run());
    let lease = node::lease::keep(nodes, host.config.node_name.clone(), host.config.lease_seconds);
    context.tasks.spawn_until_shutdown("node lease", OnPanic::Shutdown, lease);
}
