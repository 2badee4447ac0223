//! `figures`: what an instance of one node costs and how quick it is, measured from outside, as a table.
//!
//! Starts an instance of its own with `$TRIREME_BIN`'s programs (`cargo xtask figures` gives it the release build), so it
//! needs root and containerd. Figures depend on the machine: compare those of one run.
#![allow(clippy::print_stdout, reason = "a command that prints")]

mod memory;
mod pods;
mod startup;

use anyhow::Context as _;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use trireme_testkit::{Cluster, Collector, Options};

/// Pods that are started one after another.
const PODS: usize = 10;

fn main() -> anyhow::Result<()> {
    // A second install is refused and harmless.
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;

    let cluster = startup::measure(&runtime)?;
    memory::measure(&cluster)?;
    drop(cluster);

    let collector = Collector::start()?;
    let cluster = Cluster::up(Options::new(&format!("--otlp {}", collector.url())))?;
    runtime.block_on(pods::measure(&cluster, &collector))
}

/// A client as the administrator.
async fn client(cluster: &Cluster) -> anyhow::Result<Client> {
    let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig())?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Client::try_from(config).context("client")
}
