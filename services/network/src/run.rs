//! The service: an informer of nodes, and the agent's loop.

use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use tokio::time::MissedTickBehavior;
use trireme_client::{Client, Config, Informer, Subscription, Tasks, Wakes};
use trireme_service::health::{Flag, Scope};
use trireme_service::tasks::OnPanic;
use trireme_service::{CancellationToken, Context};

use crate::Args;
use crate::agent::Agent;
use crate::cleanup::{self, Places};

/// Pause after a failure.
const RETRY: Duration = Duration::from_secs(2);
/// Where the pages are, unless `--health-bind-address` says otherwise.
const PAGES: &str = "127.0.0.1:10261";

/// Runs the agent until the shutdown.
///
/// # Errors
/// When a flag is wrong, or the pages' address is taken.
pub async fn run(args: Args, context: Context) -> anyhow::Result<()> {
    let settings = args.settings()?;
    if args.cleanup {
        let places =
            Places { conf_dir: args.cni_conf_dir, bin_dir: args.cni_bin_dir, results: PathBuf::from(cleanup::RESULTS) };
        cleanup::cleanup(&settings, &places).await?;
        tracing::info!(network = settings.name, "removed");
        return Ok(());
    }
    let client = Client::new(Config::from_args(&args.client, "trireme-network")?)?;
    let tasks = Tasks::from(context.tasks.clone());
    let nodes = Informer::<Node>::builder(&client).transform(slim).start(&tasks);
    let ready = context.health.flag("pod-network", Scope::Ready);
    context.serve_pages(PAGES, None).await?;

    tracing::info!(node = settings.node_name, network = settings.name, "waiting for this node's range of addresses");
    let agent = Agent::new(settings, args.cni_conf_dir.clone(), args.mtu, nodes.store(), args.trace_window);
    let events = nodes.subscribe();
    let shutdown = context.shutdown.clone();
    context.tasks.spawn("agent", OnPanic::Shutdown, async move {
        tokio::select! {
            // The informer stays alive for as long as its events are wanted.
            () = nodes.synced() => {}
            () = shutdown.cancelled() => return,
        }
        follow(agent, events, args.sync_period, &ready, &shutdown).await;
    });
    context.shutdown.cancelled().await;
    Ok(())
}

/// Keeps of a Node what the planner reads, so that images and heartbeats cost no memory.
fn slim(node: &mut Node) {
    node.metadata.managed_fields = None;
    node.metadata.annotations = None;
    if let Some(status) = &mut node.status {
        let addresses = status.addresses.take();
        *status = k8s_openapi::api::core::v1::NodeStatus { addresses, ..Default::default() };
    }
}

async fn follow(
    mut agent: Agent,
    mut events: Subscription<Node>,
    period: Duration,
    ready: &Flag,
    shutdown: &CancellationToken,
) {
    let mut tick = tokio::time::interval(period);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut wakes = Wakes::default();
    loop {
        match agent.sync(&wakes).await {
            Ok(true) => {
                wakes = Wakes::default();
                ready.pass();
            }
            Ok(false) => ready.fail("this node has no range of addresses yet"),
            Err(error) => {
                tracing::error!(%error, "the pod network is not as it should be");
                ready.fail(error.to_string());
                tick.reset_after(RETRY);
            }
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = tick.tick() => {}
            event = events.recv() => match event {
                Some(event) => wakes.merge(Wakes::from(event.cause)),
                None => return,
            },
        }
        while let Ok(event) = events.try_recv() {
            wakes.merge(Wakes::from(event.cause));
        }
    }
}
