//! The lessor: how long leases still live. Only the leader counts, by its monotonic clock; a new leader begins every
//! lease anew, so a lease never ends early. It owns the deadlines; that a lease ended is a command in the log.
use std::collections::HashMap;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use trireme_proto::raft::v1::LeaseRevoke;
use trireme_proto::raft::v1::command::Op;

use crate::error::{Error, Result};
use crate::raft::Node;

/// Questions that wait.
pub(crate) const QUEUE: usize = 1024;
/// How often it looks for leases that ended.
const TICK: Duration = Duration::from_millis(200);
/// When a revocation is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// Revocations under way. Many leases may have ended while nobody led: those that write must not queue behind them.
const UNDER_WAY: usize = 32;

/// What a lease still has, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Time {
    /// What it was granted.
    pub granted: i64,
    /// What is left.
    pub remaining: i64,
}

/// A question to the lessor.
pub(crate) enum Ask {
    /// The time of a lease, renewed before if wanted.
    Time { lease: i64, renew: bool, reply: oneshot::Sender<Result<Option<Time>>> },
    /// All leases, those that end first at the front.
    All { reply: oneshot::Sender<Vec<i64>> },
}

struct Deadline {
    granted: u64,
    ttl: i64,
    at: Instant,
    /// Not before this its revocation is asked for; nothing while that is under way.
    revoke_at: Option<Instant>,
}

struct Lessor {
    node: Node,
    /// The term it counts in; none while another member leads.
    term: Option<u64>,
    leases: imbl::OrdMap<i64, crate::mvcc::Lease>,
    deadlines: HashMap<i64, Deadline>,
}

/// Runs until the queue is closed.
pub(crate) async fn run(node: Node, mut queue: mpsc::Receiver<Ask>) {
    let mut lessor = Lessor { node, term: None, leases: Default::default(), deadlines: HashMap::new() };
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut revocations = FuturesUnordered::new();
    loop {
        tokio::select! {
            ask = queue.recv() => match ask {
                Some(ask) => {
                    lessor.sync();
                    lessor.answer(ask);
                }
                None => return,
            },
            Some((revoke, result)) = revocations.next() => lessor.revoked(&revoke, result),
            _ = ticks.tick() => lessor.sync(),
        }
        while revocations.len() < UNDER_WAY
            && let Some(revoke) = lessor.next_ended()
        {
            let node = lessor.node.clone();
            revocations.push(async move {
                let result = node.propose(Op::LeaseRevoke(revoke)).await;
                (revoke, result.map(drop))
            });
        }
    }
}

impl Lessor {
    /// Takes over what the state and the leadership became.
    fn sync(&mut self) {
        let standing = self.node.standing();
        let term = standing.leads.then_some(standing.term);
        if term != self.term {
            self.term = term;
            self.deadlines.clear();
            self.leases = Default::default();
        }
        let leases = &self.node.view().state.leases;
        if self.leases.ptr_eq(leases) {
            return;
        }
        self.leases = leases.clone();
        if term.is_none() {
            return;
        }
        self.deadlines.retain(|id, d| leases.get(id).is_some_and(|l| l.granted == d.granted));
        for (id, lease) in leases {
            self.deadlines.entry(*id).or_insert_with(|| {
                let at = Instant::now() + seconds(lease.ttl);
                Deadline { granted: lease.granted, ttl: lease.ttl, at, revoke_at: Some(at) }
            });
        }
    }

    fn answer(&mut self, ask: Ask) {
        match ask {
            Ask::Time { lease, renew, reply } => {
                let _ = reply.send(self.time(lease, renew));
            }
            Ask::All { reply } => {
                let mut all: Vec<i64> = self.leases.keys().copied().collect();
                all.sort_by_key(|id| (self.deadlines.get(id).map(|d| d.at), *id));
                let _ = reply.send(all);
            }
        }
    }

    fn time(&mut self, lease: i64, renew: bool) -> Result<Option<Time>> {
        if self.term.is_none() {
            return Err(Error::NotLeader);
        }
        let now = Instant::now();
        let Some(deadline) = self.deadlines.get_mut(&lease) else { return Ok(None) };
        if renew {
            // One that has ended waits for its revocation and cannot be saved.
            if deadline.at <= now {
                return Ok(None);
            }
            deadline.at = now + seconds(deadline.ttl);
            deadline.revoke_at = Some(deadline.at);
        }
        let remaining = deadline.at.saturating_duration_since(now).as_secs() as i64;
        Ok(Some(Time { granted: deadline.ttl, remaining: if renew { deadline.ttl } else { remaining } }))
    }

    /// The lease that ended first and waits for its revocation, which is now under way.
    fn next_ended(&mut self) -> Option<LeaseRevoke> {
        let now = Instant::now();
        let ended = self.deadlines.iter_mut().filter(|(_, d)| d.revoke_at.is_some_and(|at| at <= now));
        let (id, deadline) = ended.min_by_key(|(_, d)| d.at)?;
        deadline.revoke_at = None;
        Some(LeaseRevoke { id: *id, expired: true, granted: deadline.granted })
    }

    fn revoked(&mut self, revoke: &LeaseRevoke, result: Result<()>) {
        match result {
            Ok(()) | Err(Error::LeaseNotFound) => {}
            Err(error) => {
                tracing::warn!(lease = revoke.id, %error, "a lease ended but was not revoked; it is tried again");
                if let Some(deadline) = self.deadlines.get_mut(&revoke.id).filter(|d| d.granted == revoke.granted) {
                    deadline.revoke_at = Some(Instant::now() + RETRY);
                }
            }
        }
    }
}

fn seconds(ttl: i64) -> Duration {
    Duration::from_secs(ttl.max(0) as u64)
}
