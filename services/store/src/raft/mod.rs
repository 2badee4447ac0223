//! Consensus, behind one type: [`Node`] proposes commands, gives read indexes and shows the state. No type of the
//! consensus library leaves this folder.
mod execute;
mod founding;
mod frame;
mod handover;
mod lease_time;
mod log;
mod machine;
mod network;
mod peer;
mod proposer;
mod reads;
mod snapshot_store;
mod snapshots;
mod types;
mod wal;
mod writes;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use openraft::{Config, ServerState, SnapshotPolicy};
use tokio::sync::{MutexGuard, mpsc};
use tokio::time::Instant;
use tonic::Status;
use trireme_proto::raft::v1 as pb;
use trireme_service::tasks::{OnPanic, Tasks};

pub(crate) use machine::{Applied, Outlet, View};
pub(crate) use peer::PeerService;
pub(crate) use types::Member;

use crate::error::{Error, Result};
use crate::lease;
use log::Log;
use machine::Machine;
use network::{Client, Peers};
use proposer::Pending;
use types::Raft;

/// The longest a request waits for the cluster, as etcd's default.
const REQUEST_TIME: Duration = Duration::from_secs(7);
/// How long the answers of a leader that was replaced are waited for.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// What a node is started with.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Its data directory.
    pub data_dir: PathBuf,
    /// Its id.
    pub id: u64,
    /// The cluster's id.
    pub cluster_id: u64,
    /// Itself.
    pub me: Member,
    /// All members a new cluster begins with, itself included.
    pub members: BTreeMap<u64, Member>,
    /// How often a leader shows that it lives.
    pub heartbeat: Duration,
    /// After about this time without a leader there is a new one.
    pub election: Duration,
    /// TLS towards other members.
    pub tls: Option<Arc<rustls::ClientConfig>>,
}

/// This member of the cluster. Clones share it.
#[derive(Clone)]
pub(crate) struct Node(Arc<Inner>);

struct Inner {
    settings: Settings,
    raft: Raft,
    log: Log,
    outlet: Outlet,
    peers: Peers,
    proposals: mpsc::Sender<Pending>,
    reads: mpsc::Sender<reads::Waiting>,
    leases: mpsc::Sender<lease::Ask>,
    receiving: tokio::sync::Mutex<()>,
    /// Set while the lead is handed over.
    leaving: AtomicBool,
}

/// Where the cluster stands, as this member sees it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Standing {
    /// The leader, if one is known.
    pub leader: Option<u64>,
    /// The term.
    pub term: u64,
    /// The last entry of this member's log.
    pub last_index: u64,
    /// Whether this member leads.
    pub leads: bool,
    /// As a leader: time since a quorum last confirmed it.
    pub since_quorum: Option<Duration>,
    /// Whether this member does not vote.
    pub learner: bool,
}

impl Node {
    /// Opens the data directory, joins or founds the cluster, and runs the node's tasks.
    pub(crate) async fn start(settings: Settings, tasks: &Tasks) -> Result<Self> {
        let dir = &settings.data_dir;
        let (log, (machine, outlet)) = {
            let (wal, snap, cluster_id) = (dir.join("wal"), dir.join("snap"), settings.cluster_id);
            let open = move || {
                let (machine, outlet) = Machine::open(&snap, cluster_id)?;
                let log = Log::open(&wal, machine.applied(), machine.damaged())?;
                for damaged in machine.damaged() {
                    let (file, error) = (damaged.path.display(), &damaged.error);
                    tracing::warn!(%file, %error, "a snapshot is damaged: its data is taken from the log");
                }
                let machine = machine.told(log.last_index());
                Ok::<_, Error>((log, (machine, outlet)))
            };
            tokio::task::spawn_blocking(open).await??
        };
        let peers = Peers::new(settings.cluster_id, settings.tls.clone(), log.last_index());
        let damaged = !machine.damaged().is_empty();
        let raft = Raft::new(settings.id, config(&settings)?, peers.clone(), log.clone(), machine).await;
        let raft = raft.map_err(Error::raft("raft cannot start"))?;
        if damaged {
            raft.trigger().snapshot().await.map_err(Error::raft("no snapshot in place of the damaged one"))?;
        }
        let (proposals, proposed) = mpsc::channel(proposer::QUEUE);
        let (reads, read) = mpsc::channel(reads::QUEUE);
        let (leases, asked) = mpsc::channel(lease::QUEUE);
        let receiving = tokio::sync::Mutex::new(());
        let leaving = AtomicBool::new(false);
        let node =
            Self(Arc::new(Inner { settings, raft, log, outlet, peers, proposals, reads, leases, receiving, leaving }));
        tasks.spawn_until_shutdown("proposer", OnPanic::Shutdown, proposer::run(node.raft().clone(), proposed));
        tasks.spawn_until_shutdown("read-index", OnPanic::Shutdown, reads::run(node.raft().clone(), read));
        tasks.spawn_until_shutdown("lessor", OnPanic::Shutdown, lease::run(node.clone(), asked));
        tasks.spawn_until_shutdown("snapshots", OnPanic::Shutdown, node.clone().keep_log_short());
        tasks.spawn_until_shutdown("leadership", OnPanic::Log, node.clone().tell_leaders());
        tasks.spawn_until_shutdown("founder", OnPanic::Shutdown, node.clone().found());
        Ok(node)
    }

    /// Ends the node's part in the cluster.
    pub(crate) async fn stop(&self) {
        if let Err(error) = self.raft().shutdown().await {
            tracing::warn!(%error, "raft did not end well");
        }
    }

    /// This member's id.
    pub(crate) fn id(&self) -> u64 {
        self.0.settings.id
    }

    /// The cluster's id.
    pub(crate) fn cluster_id(&self) -> u64 {
        self.0.settings.cluster_id
    }

    /// This member.
    pub(crate) fn me(&self) -> &Member {
        &self.0.settings.me
    }

    /// The newest view of this member.
    pub(crate) fn view(&self) -> Arc<View> {
        self.0.outlet.views.borrow().clone()
    }

    /// Where views and revisions are seen as they come.
    pub(crate) fn outlet(&self) -> &Outlet {
        &self.0.outlet
    }

    /// Bytes of the log that are not in a snapshot, about.
    pub(crate) fn log_bytes(&self) -> usize {
        self.0.log.bytes()
    }

    /// The index of the last entry that is known to be on a majority.
    pub(crate) fn committed(&self) -> u64 {
        self.0.log.committed()
    }

    /// Where the cluster stands.
    pub(crate) fn standing(&self) -> Standing {
        let metrics = self.raft().metrics();
        let m = metrics.borrow();
        let leads = m.state == ServerState::Leader && m.current_leader == Some(self.id());
        Standing {
            leader: m.current_leader,
            term: m.current_term,
            last_index: m.last_log_index.unwrap_or_default(),
            leads,
            since_quorum: if self.0.settings.members.len() == 1 && leads {
                Some(Duration::ZERO)
            } else {
                m.millis_since_quorum_ack.map(Duration::from_millis)
            },
            learner: m.state == ServerState::Learner,
        }
    }

    /// Whether the node still takes part.
    pub(crate) fn is_running(&self) -> bool {
        self.raft().metrics().borrow().running_state.is_ok()
    }

    /// The members, from the cluster's own record.
    pub(crate) fn members(&self) -> BTreeMap<u64, Member> {
        let metrics = self.raft().metrics();
        let membership = metrics.borrow().membership_config.clone();
        membership.nodes().map(|(id, member)| (*id, member.clone())).collect()
    }

    /// Asks a member to describe itself.
    pub(crate) async fn describe(&self, id: u64, member: &Member) -> Result<Member> {
        let mut client = self.0.peers.client(id, member)?;
        let ask = client.describe(pb::DescribeRequest { cluster_id: self.cluster_id() });
        let answer = tokio::time::timeout(Duration::from_millis(500), ask).await.map_err(|_| Error::TimedOut)?;
        let node = answer?.into_inner();
        Ok(Member { name: node.name, peer_urls: node.peer_urls, client_urls: node.client_urls })
    }

    pub(super) fn raft(&self) -> &Raft {
        &self.0.raft
    }

    pub(super) async fn receiving(&self) -> MutexGuard<'_, ()> {
        self.0.receiving.lock().await
    }

    /// The leader; waits for one.
    async fn leader(&self, deadline: Instant) -> Result<u64> {
        let mut metrics = self.raft().metrics();
        let known = metrics.wait_for(|m| m.current_leader.is_some() || m.running_state.is_err());
        let known = tokio::time::timeout_at(deadline, known).await.map_err(|_| Error::TimedOut)?;
        let known = known.map_err(|_| Error::Stopped)?;
        if known.running_state.is_err() {
            return Err(Error::Stopped);
        }
        known.current_leader.ok_or(Error::NoLeader)
    }

    /// Waits for an answer of the member that leads, at most until the deadline. A leader that falls silent keeps its
    /// connections, so that nothing but the next election tells that no answer comes: [`Error::LeaderChanged`].
    async fn answered<T>(
        &self,
        leader: u64,
        deadline: Instant,
        answer: impl Future<Output = Result<T, Status>>,
    ) -> Result<Result<T, Status>> {
        let mut metrics = self.raft().metrics();
        let replaced = async {
            let _ = metrics.wait_for(|m| m.current_leader != Some(leader)).await;
            // One that handed the lead over answers still.
            tokio::time::sleep(LAST_WORDS).await;
        };
        tokio::select! {
            biased;
            answer = answer => Ok(answer),
            () = replaced => Err(Error::LeaderChanged),
            () = tokio::time::sleep_until(deadline) => Err(Error::TimedOut),
        }
    }

    fn client(&self, id: u64) -> Option<Client> {
        let member = self.members().remove(&id)?;
        self.0.peers.client(id, &member).ok()
    }

    /// Waits until the node takes part no more; answers why.
    pub(crate) async fn ended(&self) -> String {
        let mut metrics = self.raft().metrics();
        match metrics.wait_for(|m| m.running_state.is_err()).await {
            Ok(m) => m.running_state.as_ref().err().map(ToString::to_string).unwrap_or_default(),
            Err(_) => "raft is gone".to_owned(),
        }
    }
}

fn config(settings: &Settings) -> Result<Arc<Config>> {
    let election = settings.election.as_millis() as u64;
    let config = Config {
        cluster_name: format!("{:x}", settings.cluster_id),
        heartbeat_interval: settings.heartbeat.as_millis() as u64,
        // A follower first lets the leader's lease run out (the maximum), then waits its own random time.
        election_timeout_min: election / 4,
        election_timeout_max: election / 2,
        install_snapshot_timeout: 120_000,
        max_payload_entries: 256,
        snapshot_policy: SnapshotPolicy::Never,
        // Cut by `keep_log_short`, which knows how large entries are.
        max_in_snapshot_log_to_keep: u64::MAX,
        ..Config::default()
    };
    config.validate().map(Arc::new).map_err(|e| Error::Config(e.to_string()))
}
