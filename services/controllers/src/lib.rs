//! The controller workers: what makes the cluster as its objects say.
//!
//! A controller is a file or a folder: a planner, which is pure (from what was observed to what is to be written) and
//! tested without any I/O, and a thin executor. What wakes a key, that it runs once at a time, back-off, fences and traces
//! are the engine's (`trireme-client`).
//!
//! Actors: one informer a kind, shared by all controllers; one engine a controller, each with its queue and workers; the
//! claim; event recorders. Whatever a worker remembers itself (when it last saw a node live, whose turn it is to be
//! evicted, ranges it has just given away) can be lost: the next worker sees it anew and errs on the side of waiting.
//!
//! Invariants: a planner does no I/O and knows no clock but what it is given; every write is idempotent or compares what it
//! replaces; names of what is created are chosen once; deletes name the uid.

mod cluster;
mod common;
mod config;
mod daemonset;
mod deployment;
mod endpoints;
mod endpointslice;
mod garbage;
mod namespace;
mod nodes;
mod protection;
mod replicaset;
mod root_ca;
mod service_account;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use anyhow::Context as _;
use trireme_client::claims::Settings;
use trireme_client::{Claim, Client, Config as ClientConfig, Controller, Reconciler, Tasks};
use trireme_service::Context;
use trireme_service::health::Scope;

use cluster::Cluster;
pub use config::Config;

/// The user agent's first word, which is the field manager of what is written.
const COMPONENT: &str = "kube-controller-manager";

/// Runs the controllers until the service shuts down.
///
/// # Errors
/// The flags contradict each other, a file cannot be read, or the pages' address is taken.
pub async fn run(config: Config, context: Context) -> anyhow::Result<()> {
    if let Some(doubt) = config.doubt() {
        tracing::warn!("{doubt}");
    }
    // Old kinds (Endpoints, for one) are looked after as long as they are served.
    let client = Client::new(ClientConfig::from_args(&config.client, COMPONENT)?.without_warnings())?;
    let reachable = context.health.flag("apiserver", Scope::Ready);
    context.serve_secure_pages(&config.serving, config.secure_port).await?;

    let tasks = Tasks::from(context.tasks.clone());
    let host = trireme_service::hostname()?;
    let claim = config.leader_elect.then(|| {
        let settings =
            Settings::single(config.leader_elect_resource_name.clone(), host).duration(config.claim_duration);
        Claim::start(&client, settings, &tasks)
    });
    let workers = config.concurrent_syncs;
    let accounts = config.use_service_account_credentials.then(|| client.service_accounts()).transpose()?;
    let cluster = Cluster::new(client.clone(), accounts, tasks.clone(), Arc::new(config), claim);
    for (name, controller) in start(&cluster, workers)? {
        tasks.spawn(name, controller);
    }
    if context.shutdown.run_until_cancelled(client.wait_until_reachable()).await.is_some() {
        reachable.pass();
    }
    context.shutdown.cancelled().await;
    Ok(())
}

type Make<'a> = &'a dyn Fn(&Cluster) -> (Controller, Arc<dyn Reconciler>);
type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The controllers that the flags ask for, each ready to run.
fn start(cluster: &Cluster, workers: usize) -> anyhow::Result<Vec<(&'static str, Running)>> {
    let config = cluster.config.clone();
    let mut running: Vec<(&'static str, Running)> = Vec::new();
    let mut add = |name: &'static str, account: &str, workers: usize, make: Make<'_>| {
        if config.enabled(name) {
            let (controller, reconciler) = make(&cluster.acting_as(account));
            running.push((name, Box::pin(controller.run(workers, reconciler))));
        }
    };
    add("deployment", "deployment-controller", workers, &deployment::controller);
    add("replicaset", "replicaset-controller", workers, &replicaset::controller);
    add("daemonset", "daemon-set-controller", workers, &daemonset::controller);
    add("endpointslice", "endpointslice-controller", workers, &endpointslice::controller);
    add("endpoints", "endpoint-controller", workers, &endpoints::controller);
    add("namespace", "namespace-controller", workers, &namespace::controller);
    add("serviceaccount", "service-account-controller", 1, &service_account::controller);
    add("nodelifecycle", "node-controller", workers, &nodes::lifecycle::controller);
    add("taint-eviction", "node-controller", workers, &nodes::tolerations::controller);
    add("podgc", "pod-garbage-collector", 1, &nodes::pod_gc::controller);
    add("ttl", "ttl-controller", 1, &nodes::ttl::controller);
    add("persistentvolumeclaim-protection", "pvc-protection-controller", workers, &protection::claims::controller);
    add("persistentvolume-protection", "pv-protection-controller", 1, &protection::volumes::controller);
    let classes = "volumeattributesclass-protection";
    add(classes, "volumeattributesclass-protection-controller", 1, &protection::classes::controller);
    if config.allocate_node_cidrs {
        let cidr = config.cluster_cidr.as_deref().context("--allocate-node-cidrs needs --cluster-cidr")?;
        let ranges = nodes::ipam::Ranges::parse(cidr, config.node_cidr_mask_size).map_err(anyhow::Error::msg)?;
        add("nodeipam", "node-controller", 1, &move |cluster| nodes::ipam::controller(cluster, ranges));
    }
    if let Some(path) = &config.root_ca_file {
        let authority = std::fs::read_to_string(path).with_context(|| format!("--root-ca-file {}", path.display()))?;
        let make = move |cluster: &Cluster| root_ca::controller(cluster, authority.clone());
        add("root-ca-certificate-publisher", "root-ca-cert-publisher", 1, &make);
    }
    if config.enabled("garbage-collector") {
        let work = garbage::run(cluster.acting_as("generic-garbage-collector"), workers);
        running.push(("garbage-collector", Box::pin(work)));
    }
    Ok(running)
}
