//! Consensus, behind one type: [`Node`] proposes commands, gives read indexes and shows the state. No type of the
//! consensus library leaves this folder.
mod execute;
mod handover;
mod log;
mod machine;
mod network;
mod peer;
mod proposer;
mod reads;
mod types;
mod wal;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use openraft::{Config, ServerState, SnapshotPolicy};
use prost::Message;
use tokio::sync::{MutexGuard, mpsc, oneshot};
use tokio::time::Instant;
use tonic::Code;
use tracing::Instrument;
use trireme_proto::raft::v1 as pb;
use trireme_proto::raft::v1::command::Op;
use trireme_service::tasks::{OnPanic, Tasks};

pub(crate) use machine::{Applied, Outlet, View};
pub(crate) use peer::PeerService;
pub(crate) use proposer::Committed;
pub(crate) use types::Member;

use crate::error::{Error, Result};
use crate::lease;
use log::Log;
use machine::Machine;
use network::{Client, Peers};
use proposer::Pending;
use types::{Proposal, Raft};

/// The longest a request waits for the cluster, as etcd's default.
const REQUEST_TIME: Duration = Duration::from_secs(7);
/// Bytes and number of log entries after which a snapshot is due, at least.
const SNAPSHOT_BYTES: usize = 4 << 20;
const SNAPSHOT_ENTRIES: usize = 50_000;
/// Bytes and number of entries kept though they are in a snapshot, for members that are a little behind.
const KEPT_BYTES: usize = 1 << 20;
const KEPT_ENTRIES: usize = 1000;

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
                let log = Log::open(&wal)?;
                let machine = Machine::open(&snap, cluster_id, log.last_index())?;
                Ok::<_, Error>((log, machine))
            };
            tokio::task::spawn_blocking(open).await.map_err(|e| Error::Io(e.to_string()))??
        };
        let peers = Peers::new(settings.cluster_id, settings.tls.clone(), log.last_index());
        let raft = Raft::new(settings.id, config(&settings)?, peers.clone(), log.clone(), machine).await;
        let raft = raft.map_err(|e| Error::Io(e.to_string()))?;
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

    /// Begins a new cluster, if this member was never part of one.
    pub(crate) async fn initialize(&self) -> Result<()> {
        let raft = self.raft();
        if raft.is_initialized().await.map_err(|e| Error::Io(e.to_string()))? {
            return Ok(());
        }
        match raft.initialize(self.0.settings.members.clone()).await {
            Ok(()) => Ok(()),
            // The leader was quicker.
            Err(_) if raft.is_initialized().await.unwrap_or_default() => Ok(()),
            Err(error) => Err(Error::Io(error.to_string())),
        }
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
        let node = answer.map_err(|s| Error::Io(s.message().into()))?.into_inner();
        Ok(Member { name: node.name, peer_urls: node.peer_urls, client_urls: node.client_urls })
    }

    pub(super) fn raft(&self) -> &Raft {
        &self.0.raft
    }

    pub(super) async fn receiving(&self) -> MutexGuard<'_, ()> {
        self.0.receiving.lock().await
    }

    // === writes ===

    /// Puts a command through the log. The reply comes when it was applied, by this member too.
    pub(crate) async fn propose(&self, op: Op) -> Result<pb::Reply> {
        let (span, traceparent) = crate::trace::propose();
        let command: Bytes = pb::Command { op: Some(op) }.encode_to_vec().into();
        let began = Instant::now();
        let result = self.propose_anywhere(Proposal { traceparent, command }).instrument(span).await;
        match &result {
            Ok(_) => metrics::histogram!("trireme_store_proposal_seconds").record(began.elapsed().as_secs_f64()),
            Err(_) => metrics::counter!("etcd_server_proposals_failed_total").increment(1),
        }
        result
    }

    async fn propose_anywhere(&self, proposal: Proposal) -> Result<pb::Reply> {
        let deadline = Instant::now() + REQUEST_TIME;
        loop {
            let leader = self.leader(deadline).await?;
            if leader == self.id() {
                let here = tokio::time::timeout_at(deadline, self.propose_here(proposal.clone())).await;
                match here.map_err(|_| Error::TimedOut)? {
                    Ok(committed) => return committed.outcome,
                    Err(Error::NotLeader) => {}
                    Err(error) => return Err(error),
                }
            } else if let Some(reply) = self.propose_at(leader, &proposal, deadline).await? {
                return reply;
            }
            // The leader is changing: nothing was written, so it is tried again.
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }

    /// Proposes as the leader. [`Error::NotLeader`] means that nothing was written.
    pub(super) async fn propose_here(&self, proposal: Proposal) -> Result<Committed> {
        if !self.standing().leads || self.is_leaving() {
            return Err(Error::NotLeader);
        }
        let (done, committed) = oneshot::channel();
        self.0.proposals.try_send(Pending { proposal, done }).map_err(|_| Error::TooManyRequests)?;
        committed.await.map_err(|_| Error::Stopped)?
    }

    /// Proposes at another member. Nothing means that it does not lead, or was not reached, and nothing was written.
    async fn propose_at(
        &self,
        leader: u64,
        proposal: &Proposal,
        deadline: Instant,
    ) -> Result<Option<Result<pb::Reply>>> {
        let Some(mut client) = self.client(leader) else { return Ok(None) };
        let proposal = Some(types::proposal_to_proto(proposal));
        let request = pb::ProposeRequest { cluster_id: self.cluster_id(), proposal };
        let answer = match tokio::time::timeout_at(deadline, client.propose(request)).await {
            Err(_) => return Err(Error::TimedOut),
            Ok(Err(status)) if status.code() == Code::FailedPrecondition || was_not_sent(&status) => return Ok(None),
            Ok(Err(status)) if status.code() == Code::ResourceExhausted => return Err(Error::TooManyRequests),
            Ok(Err(status)) if status.message() == Error::LeaderChanged.to_string() => {
                return Err(Error::LeaderChanged);
            }
            // It may have been written: nobody may try it again.
            Ok(Err(_)) => return Err(Error::LeaderFailed),
            Ok(Ok(answer)) => answer.into_inner(),
        };
        // What this client reads here next has to show its write.
        self.applied(answer.log_index, deadline).await?;
        let reply = pb::Reply::decode(answer.reply).map_err(|e| Error::Io(e.to_string()))?;
        Ok(Some(if reply.error == 0 { Ok(reply) } else { Err(Error::from_number(reply.error)) }))
    }

    // === reads ===

    /// Waits until this member has applied all that was committed when the call came; answers that index and the term.
    pub(crate) async fn read_index(&self) -> Result<(u64, u64)> {
        let deadline = Instant::now() + REQUEST_TIME;
        loop {
            let leader = self.leader(deadline).await?;
            let found = if leader == self.id() {
                tokio::time::timeout_at(deadline, self.read_index_here()).await.map_err(|_| Error::TimedOut)?
            } else {
                self.read_index_at(leader, deadline).await
            };
            match found {
                Ok((index, term)) => {
                    self.applied(index, deadline).await?;
                    return Ok((index, term));
                }
                Err(Error::Stopped) => return Err(Error::Stopped),
                Err(_) if Instant::now() < deadline => tokio::time::sleep(Duration::from_millis(25)).await,
                Err(_) => return Err(Error::TimedOut),
            }
        }
    }

    pub(super) async fn read_index_here(&self) -> Result<(u64, u64)> {
        // A round of reads would renew the members' lease.
        if self.is_leaving() {
            return Err(Error::NotLeader);
        }
        let (done, found) = oneshot::channel();
        self.0.reads.try_send(done).map_err(|_| Error::TooManyRequests)?;
        found.await.map_err(|_| Error::Stopped)?
    }

    async fn read_index_at(&self, leader: u64, deadline: Instant) -> Result<(u64, u64)> {
        let mut client = self.client(leader).ok_or(Error::NoLeader)?;
        let ask = client.read_index(pb::ReadIndexRequest { cluster_id: self.cluster_id() });
        // A leader that is gone shows only as silence; a new one may be found meanwhile.
        let patience = deadline.min(Instant::now() + Duration::from_secs(2));
        let answer = tokio::time::timeout_at(patience, ask).await.map_err(|_| Error::TimedOut)?;
        let answer = answer.map_err(|_| Error::NotLeader)?.into_inner();
        Ok((answer.log_index, answer.term))
    }

    /// Waits until an entry is applied here.
    async fn applied(&self, index: u64, deadline: Instant) -> Result<()> {
        let mut views = self.0.outlet.views.clone();
        let reached = views.wait_for(|view| view.applied >= index);
        let reached = tokio::time::timeout_at(deadline, reached).await.map_err(|_| Error::TimedOut)?;
        reached.map(drop).map_err(|_| Error::Stopped)
    }

    // === leases ===

    /// The time left on a lease, by the leader's clock, renewed before if wanted. Nothing if it is not there.
    pub(crate) async fn lease_time(&self, lease: i64, renew: bool) -> Result<Option<lease::Time>> {
        let deadline = Instant::now() + REQUEST_TIME;
        loop {
            let leader = self.leader(deadline).await?;
            let time = if leader == self.id() {
                self.lease_time_here(lease, renew).await
            } else {
                self.lease_time_at(leader, lease, renew, deadline).await
            };
            match time {
                Ok(time) => return Ok(time),
                Err(Error::Stopped) => return Err(Error::Stopped),
                Err(_) if Instant::now() < deadline => tokio::time::sleep(Duration::from_millis(25)).await,
                Err(_) => return Err(Error::TimedOut),
            }
        }
    }

    pub(super) async fn lease_time_here(&self, lease: i64, renew: bool) -> Result<Option<lease::Time>> {
        // A leader that was deposed without knowing must not let leases live on.
        self.read_index_here().await?;
        let (reply, time) = oneshot::channel();
        let ask = lease::Ask::Time { lease, renew, reply };
        self.0.leases.send(ask).await.map_err(|_| Error::Stopped)?;
        time.await.map_err(|_| Error::Stopped)?
    }

    async fn lease_time_at(
        &self,
        leader: u64,
        lease: i64,
        renew: bool,
        deadline: Instant,
    ) -> Result<Option<lease::Time>> {
        let mut client = self.client(leader).ok_or(Error::NoLeader)?;
        let ask = client.renew(pb::RenewRequest { cluster_id: self.cluster_id(), lease, look: !renew });
        let patience = deadline.min(Instant::now() + Duration::from_secs(2));
        let answer = tokio::time::timeout_at(patience, ask).await.map_err(|_| Error::TimedOut)?;
        let answer = answer.map_err(|_| Error::NotLeader)?.into_inner();
        let time = lease::Time { granted: answer.granted_ttl, remaining: answer.remaining_ttl };
        Ok(answer.found.then_some(time))
    }

    /// All leases, those that end first at the front where this member's clock counts.
    pub(crate) async fn leases(&self) -> Result<Vec<i64>> {
        let (reply, leases) = oneshot::channel();
        self.0.leases.send(lease::Ask::All { reply }).await.map_err(|_| Error::Stopped)?;
        leases.await.map_err(|_| Error::Stopped)
    }

    // === the cluster ===

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

    /// Says who leads when that changes.
    async fn tell_leaders(self) {
        let mut metrics = self.raft().metrics();
        let mut known = (None, 0);
        loop {
            let Ok(now) = metrics.wait_for(|m| (m.current_leader, m.current_term) != known).await.map(|m| {
                let name = |id: u64| m.membership_config.membership().get_node(&id).map(|node| node.name.clone());
                (m.current_leader, m.current_term, m.current_leader.and_then(name))
            }) else {
                return;
            };
            if let Some(leader) = &now.2 {
                metrics::counter!("etcd_server_leader_changes_seen_total").increment(1);
                tracing::info!(leader, term = now.1, "there is a leader");
            } else if known.0.is_some() {
                tracing::warn!(term = now.1, "there is no leader");
            }
            known = (now.0, now.1);
        }
    }

    /// Names the history when it begins.
    async fn found(self) {
        let mut views = self.0.outlet.views.clone();
        loop {
            if !views.borrow_and_update().state.incarnation.is_empty() {
                return;
            }
            if self.standing().leads {
                let incarnation = uuid::Uuid::new_v4().to_string();
                let _ = self.propose(Op::Founding(pb::Founding { incarnation })).await;
            }
            let _ = tokio::time::timeout(Duration::from_millis(200), views.changed()).await;
        }
    }

    /// Has a snapshot made when the log after the last one has grown larger than the state, and drops what is in one.
    async fn keep_log_short(self) {
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        let Inner { log, raft, .. } = &*self.0;
        loop {
            ticks.tick().await;
            let (saved, purged) = {
                let metrics = raft.metrics();
                let m = metrics.borrow();
                (m.snapshot.map_or(0, |id| id.index), m.purged.map_or(0, |id| id.index))
            };
            let (bytes, entries) = log.size_after(saved);
            if bytes > SNAPSHOT_BYTES.max(self.view().state.size()) || entries > SNAPSHOT_ENTRIES {
                if let Err(error) = raft.trigger().snapshot().await {
                    tracing::warn!(%error, "no snapshot was made");
                }
            } else if let Some(upto) = log.purgeable(KEPT_BYTES, KEPT_ENTRIES).map(|upto| upto.min(saved))
                && upto > purged
                && let Err(error) = raft.trigger().purge_log(upto).await
            {
                tracing::warn!(%error, "the log was not cut");
            }
        }
    }
}

/// Whether a call failed before it left: the connection was never there.
fn was_not_sent(status: &tonic::Status) -> bool {
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        if let Some(io) = error.downcast_ref::<std::io::Error>()
            && io.kind() == std::io::ErrorKind::ConnectionRefused
        {
            return true;
        }
        source = error.source();
    }
    false
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
