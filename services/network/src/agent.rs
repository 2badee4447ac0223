//! The agent: makes the machine what the plan says.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use k8s_openapi::api::core::v1::Node;
use tracing::Instrument as _;
use trireme_client::wake::{Reacted, parent};
use trireme_client::{Store, Wakes};
use trireme_telemetry::{SpanExt as _, span};

use crate::Error;
use crate::plan::{Plan, Settings, plan};
use crate::system;

/// Plugins that the configuration names.
const PLUGINS: [&str; 4] = ["bridge", "host-local", "portmap", "loopback"];

/// Alone changes the node's network.
#[derive(Debug)]
pub struct Agent {
    settings: Settings,
    conf_dir: PathBuf,
    mtu: Option<u32>,
    nodes: Store<Node>,
    window: Duration,
    reacted: Reacted,
    /// The rules we wrote, and what the kernel listed then.
    rules: Option<(String, String)>,
    /// The plan that was carried out last.
    done: Option<Plan>,
}

impl Agent {
    /// An agent that has done nothing yet. `mtu`: as given by a flag.
    #[must_use]
    pub fn new(settings: Settings, conf_dir: PathBuf, mtu: Option<u32>, nodes: Store<Node>, window: Duration) -> Self {
        Self { settings, conf_dir, mtu, nodes, window, reacted: Reacted::default(), rules: None, done: None }
    }

    /// The same agent, looking at other nodes: for tests, whose stores do not change by themselves.
    #[must_use]
    pub fn seeing(self, nodes: Store<Node>) -> Self {
        Self { nodes, ..self }
    }

    /// Makes the machine what it should be. `false` while this node has no range of addresses.
    ///
    /// # Errors
    /// The first thing that failed; the others are done nevertheless, except that Pods get no network before the rest
    /// stands.
    pub async fn sync(&mut self, wakes: &Wakes) -> Result<bool, Error> {
        let Some(plan) = plan(&self.nodes.list(), &self.settings) else { return Ok(false) };
        if self.done.as_ref() == Some(&plan) {
            // Nothing new: only a look whether everything is still so.
            self.carry_out(&plan).await?;
            return Ok(true);
        }
        for (node, why) in &plan.refused {
            tracing::warn!(node, "this node gets no route: {why}");
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
        let (parent, links) = parent(wakes, &self.reacted, now, self.window);
        let span = span("sync network").parent(parent).links(&links).start();
        if let Err(error) = self.carry_out(&plan).instrument(span.clone()).await {
            span.fail(error.to_string());
            return Err(error);
        }
        self.reacted.note(wakes);
        self.done = Some(plan);
        Ok(true)
    }

    async fn carry_out(&mut self, plan: &Plan) -> Result<(), Error> {
        let mut outcome = Ok(());
        let mut note = |what: &'static str, result: Result<bool, Error>| match result {
            Ok(true) => tracing::info!("{what} changed"),
            Ok(false) => {}
            Err(error) if outcome.is_ok() => outcome = Err(error),
            Err(error) => tracing::error!(%error, "{what}"),
        };
        note("forwarding", system::enable_forwarding().await);
        note("routes", system::set_routes(&plan.routes).await);
        let mut ranges = vec![self.settings.cluster_cidr.unwrap_or(plan.pod_cidr)];
        if !ranges[0].contains(&plan.pod_cidr) {
            ranges.push(plan.pod_cidr);
        }
        note("iptables", system::accept_forwarded(&ranges).await);
        note("rules", self.set_rules(&plan.rules).await);
        outcome?;
        // Last: the runtime gives Pods a network as soon as this file is there.
        let mtu = match (self.mtu, plan.node_ip) {
            (None, Some(address)) => system::mtu_of(address).await?,
            (given, _) => given,
        };
        let list = format!("{:#}\n", plan.conflist(&self.settings, mtu));
        if system::write_file(&self.conf_file(), &list)? {
            tracing::info!(file = %self.conf_file().display(), range = %plan.pod_cidr, "CNI configuration written");
        }
        Ok(())
    }

    async fn set_rules(&mut self, script: &str) -> Result<bool, Error> {
        let listed = system::rules(&self.settings.name).await?;
        if let (Some((written, then)), Some(now)) = (&self.rules, &listed)
            && written == script
            && then == now
        {
            return Ok(false);
        }
        system::set_rules(script).await?;
        let listed = system::rules(&self.settings.name).await?.unwrap_or_default();
        self.rules = Some((script.to_owned(), listed));
        Ok(true)
    }

    fn conf_file(&self) -> PathBuf {
        conf_file(&self.conf_dir, &self.settings)
    }
}

/// The CNI configuration of a network.
pub(crate) fn conf_file(dir: &Path, settings: &Settings) -> PathBuf {
    dir.join(format!("10-{}.conflist", settings.name))
}

/// Whether the CNI plugins are there.
///
/// # Errors
/// Which one is not.
pub fn check_plugins(dir: &Path) -> Result<(), Error> {
    match PLUGINS.iter().map(|name| dir.join(name)).find(|path| !path.exists()) {
        Some(missing) => Err(Error::NoPlugin(missing)),
        None => Ok(()),
    }
}
