//! The service: informers, the keeper's loop, the health page.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use tokio::time::{Instant, MissedTickBehavior};
use trireme_client::{Client, Config, Informer, Subscription, Tasks, Wakes};
use trireme_service::health::Scope;
use trireme_service::tasks::OnPanic;
use trireme_service::{CancellationToken, Context};

use crate::Args;
use crate::nft::{self, Monitor, Seen};
use crate::plan::Options;
use crate::sync::{Keeper, Progress, World};

/// Services and slices that this proxy handles.
const OURS: &str = "!service.kubernetes.io/service-proxy-name,!service.kubernetes.io/headless";

/// How long after a transaction of ours the monitor reports it at the latest.
const REPORTED_WITHIN: Duration = Duration::from_secs(2);
/// Shortest time between two rewrites because of someone else's changes.
const PEACE: Duration = Duration::from_secs(1);

/// Runs the proxy until the shutdown.
///
/// # Errors
/// When a flag is wrong, nft does not work here, or the health page's address is taken.
pub async fn run(args: Args, context: Context) -> anyhow::Result<()> {
    let options = args.options()?;
    nft::probe().await?;
    if args.cleanup {
        let table = &options.table;
        nft::transaction(&format!("add table ip {table}\ndelete table ip {table}\n")).await?;
        tracing::info!(table, "rules removed");
        return Ok(());
    }
    let client = Client::new(Config::from_args(&args.client, "kube-proxy")?)?;
    let tasks = Tasks::from(context.tasks.clone());
    let node_name = args.node_name()?;

    let services = Informer::<Service>::builder(&client).labels(OURS).start(&tasks);
    let slices = Informer::<EndpointSlice>::builder(&client).labels(OURS).start(&tasks);
    let nodes = Informer::<Node>::builder(&client).fields(format!("metadata.name={node_name}")).start(&tasks);
    let world = World { services: services.store(), slices: slices.store(), nodes: nodes.store(), node_name };
    let progress = Progress::default();
    health(&context, &progress, &world, args.nftables_sync_period);
    context.serve_pages(&args.healthz_bind_address, None).await?;

    let sources = Sources { services: services.subscribe(), slices: slices.subscribe(), nodes: nodes.subscribe() };
    let rhythm = Rhythm { shortest: args.nftables_min_sync_period, verify: args.nftables_sync_period };
    let keeper = Keeper::new(options.clone(), world, args.trace_window, progress.clone());
    let shutdown = context.shutdown.clone();
    tracing::info!(table = options.table, "waiting for Services and EndpointSlices");
    context.tasks.spawn("keeper", OnPanic::Shutdown, async move {
        tokio::select! {
            // The informers stay alive for as long as their events are wanted.
            () = async { tokio::join!(services.synced(), slices.synced(), nodes.synced()); } => {}
            () = shutdown.cancelled() => return,
        }
        follow(keeper, sources, &options, rhythm, &progress, &shutdown).await;
    });
    context.shutdown.cancelled().await;
    Ok(())
}

fn health(context: &Context, progress: &Progress, world: &World, period: Duration) {
    let progress = progress.clone();
    context.health.add("rules", Scope::Live, move || {
        let state = progress.check(2 * period);
        async move { state }
    });
    let world = world.clone();
    context.health.add("node-eligible", Scope::Ready, move || {
        let eligible = world.node().eligible;
        async move { if eligible { Ok(()) } else { Err("the node is about to be deleted".to_owned()) } }
    });
}

struct Sources {
    services: Subscription<Service>,
    slices: Subscription<EndpointSlice>,
    nodes: Subscription<Node>,
}

impl Sources {
    /// Waits for an event and takes what else is there; why. `None` when the informers ended.
    async fn next(&mut self) -> Option<Wakes> {
        let mut wakes = tokio::select! {
            event = self.services.recv() => Wakes::from(event?.cause),
            event = self.slices.recv() => Wakes::from(event?.cause),
            // Our node's address says where node ports are; its heartbeats cause nothing.
            event = self.nodes.recv() => { event?; Wakes::default() }
        };
        while let Ok(event) = self.services.try_recv() {
            wakes.merge(Wakes::from(event.cause));
        }
        while let Ok(event) = self.slices.try_recv() {
            wakes.merge(Wakes::from(event.cause));
        }
        while self.nodes.try_recv().is_ok() {}
        Some(wakes)
    }
}

struct Rhythm {
    shortest: Duration,
    verify: Duration,
}

/// The keeper's loop.
async fn follow(
    mut keeper: Keeper,
    mut sources: Sources,
    options: &Options,
    rhythm: Rhythm,
    progress: &Progress,
    shutdown: &CancellationToken,
) {
    let mut watch = Watch::new(&options.table);
    let mut verify = tokio::time::interval(rhythm.verify);
    verify.set_missed_tick_behavior(MissedTickBehavior::Delay);
    verify.reset();
    let mut wakes = Wakes::default();
    // When the next sync is due; the first one at once.
    let mut due = Some(Instant::now());
    let mut last = None;
    progress.queued();
    loop {
        let sync = async {
            match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => return,
            more = sources.next() => {
                let Some(more) = more else { return };
                wakes.merge(more);
                progress.queued();
                let earliest = last.map_or_else(Instant::now, |last: Instant| last + rhythm.shortest);
                due.get_or_insert(earliest.max(Instant::now()));
            }
            () = sync => match keeper.sync(&wakes).await {
                Ok(transactions) => {
                    watch.ours(transactions);
                    wakes = Wakes::default();
                    due = None;
                    last = Some(Instant::now());
                }
                Err(error) => {
                    let pause = keeper.next_pause();
                    tracing::error!(%error, ?pause, "rules can't be written");
                    due = Some(Instant::now() + pause);
                }
            },
            () = watch.foreign() => {
                tracing::warn!("someone else changed our rules; they are written anew");
                metrics::counter!("trireme_proxy_foreign_changes_total").increment(1);
                keeper.distrust();
                progress.queued();
                // Someone who changes them again and again is not fought at full speed.
                let earliest = last.map_or_else(Instant::now, |last: Instant| last + rhythm.shortest.max(PEACE));
                due.get_or_insert(earliest.max(Instant::now()));
            }
            _ = verify.tick(), if due.is_none() => if !keeper.verify().await {
                tracing::warn!("the rules are not as they were written; they are written anew");
                keeper.distrust();
                due = Some(Instant::now());
            },
        }
    }
}

/// Tells our transactions from those of others, by their number.
struct Watch {
    table: String,
    monitor: Option<Monitor>,
    /// Our transactions that the monitor has yet to report, and when the last one was.
    expected: usize,
    last: Instant,
    /// When to try the monitor again.
    retry: Instant,
}

impl Watch {
    fn new(table: &str) -> Self {
        Self { table: table.to_owned(), monitor: None, expected: 0, last: Instant::now(), retry: Instant::now() }
    }

    fn ours(&mut self, transactions: usize) {
        if self.monitor.is_some() && transactions > 0 {
            self.expected += transactions;
            self.last = Instant::now();
        }
    }

    /// Waits for a transaction that is not ours, or for the possibility of one. Cancel-safe.
    async fn foreign(&mut self) {
        loop {
            let Some(monitor) = &mut self.monitor else {
                tokio::time::sleep_until(self.retry).await;
                match Monitor::start(&self.table) {
                    Ok(monitor) => {
                        self.monitor = Some(monitor);
                        self.expected = 0;
                    }
                    Err(error) => {
                        // The periodic comparison goes on.
                        tracing::warn!(%error, "changes by others are seen late");
                        self.retry = Instant::now() + Duration::from_secs(60);
                    }
                }
                continue;
            };
            match monitor.next().await {
                // One that was not reported soon after it was made never will be: the monitor was not listening yet.
                Seen::Transaction if self.expected > 0 && self.last.elapsed() < REPORTED_WITHIN => self.expected -= 1,
                Seen::Transaction => {
                    self.expected = 0;
                    return;
                }
                Seen::Lost => {
                    self.monitor = None;
                    self.retry = Instant::now() + Duration::from_secs(1);
                    return;
                }
            }
        }
    }
}
