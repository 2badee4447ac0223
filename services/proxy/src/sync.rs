//! The loop that keeps the table as it should be. One task, which alone knows what the table holds.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::Instrument as _;
use trireme_client::wake::{Reacted, parent};
use trireme_client::{ObjectKey, Store, Wakes};
use trireme_telemetry::{Kind, SpanExt as _, span};

use crate::Error;
use crate::conntrack::{self, UdpServices};
use crate::nft;
use crate::plan::{Options, base, plan};
use crate::ruleset::{Ruleset, rewrite, update};
use crate::view::{NodeView, service_ports};

/// The longest pause after a failure.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What the rules are made from.
#[derive(Clone, Debug)]
pub struct World {
    /// All Services.
    pub services: Store<Service>,
    /// All EndpointSlices.
    pub slices: Store<EndpointSlice>,
    /// This node, if it is registered.
    pub nodes: Store<Node>,
    /// Its name.
    pub node_name: String,
}

impl World {
    /// This node as it is.
    #[must_use]
    pub fn node(&self) -> NodeView {
        NodeView::new(&self.node_name, self.nodes.get(&ObjectKey::cluster(&self.node_name)).as_deref())
    }
}

/// When the rules were last right, for the health page.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Mutex<Times>>);

#[derive(Debug, Default)]
struct Times {
    waiting_since: Option<Instant>,
    synced: bool,
}

impl Progress {
    /// A change waits for the rules to follow.
    pub(crate) fn queued(&self) {
        self.0.lock().waiting_since.get_or_insert_with(Instant::now);
    }

    fn done(&self) {
        *self.0.lock() = Times { waiting_since: None, synced: true };
    }

    /// Fails before the first sync, and while a change has waited for longer than `limit`.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self, limit: Duration) -> Result<(), String> {
        let times = self.0.lock();
        match times.waiting_since {
            Some(since) if since.elapsed() > limit => Err(format!("rules are behind for {:?}", since.elapsed())),
            _ if !times.synced => Err("rules are not written yet".to_owned()),
            _ => Ok(()),
        }
    }
}

/// The table's keeper.
#[derive(Debug)]
pub struct Keeper {
    options: Options,
    base: Vec<String>,
    world: World,
    window: Duration,
    progress: Progress,
    /// What the table holds, as far as we know; none: unknown, so it is rewritten.
    present: Option<Ruleset>,
    /// What the kernel listed after our last change; none: it could not be listed.
    listed: Option<String>,
    udp: UdpServices,
    reacted: Reacted,
    pause: Duration,
}

impl Keeper {
    /// A keeper that knows nothing of the table yet.
    #[must_use]
    pub fn new(options: Options, world: World, window: Duration, progress: Progress) -> Self {
        Self {
            base: base(&options),
            options,
            world,
            window,
            progress,
            present: None,
            listed: None,
            udp: UdpServices::default(),
            reacted: Reacted::default(),
            pause: Duration::ZERO,
        }
    }

    /// The same keeper, looking at another world: for tests, whose stores do not change by themselves.
    #[must_use]
    pub fn seeing(self, world: World) -> Self {
        Self { world, ..self }
    }

    /// Forgets what the table holds: someone else changed it.
    pub fn distrust(&mut self) {
        self.present = None;
    }

    /// Makes the table what it should be. Returns how many transactions that took: none if it was so already.
    ///
    /// # Errors
    /// When nft fails; the table is then as before.
    pub async fn sync(&mut self, wakes: &Wakes) -> Result<usize, Error> {
        let begun = Instant::now();
        let node = self.world.node();
        let ports = service_ports(&self.world.services.list(), &self.world.slices.list(), &node);
        let wanted = plan(&ports, &node, &self.options);
        let script = match &self.present {
            Some(present) => update(&self.options.table, present, &wanted),
            None => rewrite(&self.options.table, &self.base, &wanted),
        };
        let mut transactions = 0;
        if !script.is_empty() {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let now = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
            let (parent, links) = parent(wakes, &self.reacted, now, self.window);
            let sync = span("sync rules").kind(Kind::Consumer).parent(parent).links(&links).start();
            sync.attribute("trireme.service_ports", i64::try_from(ports.len()).unwrap_or(i64::MAX));
            transactions = 1;
            if let Err(error) = transact(&script, self.present.is_none()).instrument(sync.clone()).await {
                sync.fail(error.to_string());
                metrics::counter!("kubeproxy_sync_proxy_rules_nftables_sync_failures_total").increment(1);
                self.present = None;
                return Err(error);
            }
            self.present = Some(wanted);
            self.reacted.note(wakes);
            metrics::histogram!("kubeproxy_sync_proxy_rules_duration_seconds").record(begun.elapsed().as_secs_f64());
            sync.in_scope(|| {
                tracing::info!(service_ports = ports.len(), bytes = script.len(), took = ?begun.elapsed(), "rules changed");
            });
        }
        self.clean_connections(UdpServices::new(&ports, &node)).await;
        self.progress.done();
        self.pause = Duration::ZERO;
        if transactions > 0 {
            // Listed at once, so that what others change from now on is noticed.
            self.listed = nft::listing(&self.options.table).await.ok();
        }
        Ok(transactions)
    }

    /// Compares the table with what it was after our last change; `false` if someone else changed it.
    pub async fn verify(&mut self) -> bool {
        match (nft::listing(&self.options.table).await, &self.listed) {
            (Ok(now), Some(then)) if now != *then => false,
            (Ok(now), _) => {
                self.listed = Some(now);
                true
            }
            (Err(error), _) => {
                tracing::debug!(%error, "the table can't be listed");
                false
            }
        }
    }

    /// How long to wait after one more failure.
    pub fn next_pause(&mut self) -> Duration {
        self.pause = (self.pause * 2).clamp(Duration::from_millis(500), LONGEST_PAUSE);
        self.pause
    }

    async fn clean_connections(&mut self, udp: UdpServices) {
        if udp == self.udp {
            return;
        }
        match conntrack::clean(&udp).await {
            Ok(0) => {}
            Ok(removed) => tracing::info!(removed, "stale UDP entries removed from the connection table"),
            // Packets of old flows go astray until the entries end by themselves; new ones are right.
            Err(error) => tracing::warn!(%error, "the connection table is not cleaned"),
        }
        self.udp = udp;
    }
}

async fn transact(script: &str, whole: bool) -> Result<(), Error> {
    let transaction = span("nft transaction").kind(Kind::Client).start();
    transaction.attribute("trireme.script_bytes", i64::try_from(script.len()).unwrap_or(i64::MAX));
    transaction.attribute("trireme.whole_table", whole);
    let result = nft::transaction(script).instrument(transaction.clone()).await;
    if let Err(error) = &result {
        transaction.fail(error.to_string());
    }
    result
}
