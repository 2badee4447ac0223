//! Handing the lead to another member (thesis of Raft, 3.10). The library gives a vote only to a candidate that has the
//! whole log, and a member that heard its leader within the lease gives none. So the leader accepts nothing new, lets
//! the successor catch up, falls silent for the lease, and only then asks it to stand: it is the first that may win.
use std::sync::atomic::Ordering;
use std::time::Duration;

use openraft::LogIdOptionExt;
use tokio::time::Instant;
use trireme_proto::raft::v1 as pb;

use super::Node;
use crate::error::{Error, Result};

/// How often it is looked whether the successor leads.
const LOOK: Duration = Duration::from_millis(10);

/// While this lives, the leader accepts nothing and is silent. Only one hand-over at a time.
struct Leaving<'a>(&'a Node);

impl<'a> Leaving<'a> {
    fn begin(node: &'a Node) -> Option<Self> {
        let before = node.0.leaving.swap(true, Ordering::SeqCst);
        (!before).then_some(Self(node))
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.raft().runtime_config().heartbeat(true);
        self.0.0.leaving.store(false, Ordering::SeqCst);
    }
}

impl Node {
    /// Hands the lead to the member `id` and returns when that one leads. Where it does not come to that, this member goes
    /// on leading, and the error is etcd's for a transfer that took too long. A successor that does not answer, or is
    /// behind, costs nobody anything; of one that is there, nothing is accepted for at most four election timeouts.
    pub(crate) async fn hand_over(&self, id: u64) -> Result<()> {
        let member = self.members().remove(&id).filter(|_| self.is_voter(id)).ok_or(Error::BadTransferee)?;
        let mut successor = self.0.peers.client(id, &member)?;
        let election = self.0.settings.election;
        self.describe(id, &member).await.map_err(|_| Error::TransferTimedOut)?;
        let newest = self.raft().metrics().borrow().last_log_index;
        self.has_matched(id, newest, Instant::now() + election).await?;

        let Some(_leaving) = Leaving::begin(self) else { return Err(Error::TransferTimedOut) };
        let deadline = Instant::now() + election * 4;
        let too_long = |_| Error::TransferTimedOut;
        self.has_matched(id, None, deadline).await?;
        self.raft().runtime_config().heartbeat(false);
        // The lease of the members, and what the last message needed to reach them.
        let silence = election / 2 + self.0.settings.heartbeat / 2;
        loop {
            tokio::time::sleep_until(deadline.min(Instant::now() + silence)).await;
            let asked = successor.campaign(pb::CampaignRequest { cluster_id: self.cluster_id() });
            let asked = tokio::time::timeout_at(deadline, asked).await.map_err(too_long)?;
            asked?;
            let decided = Instant::now() + election;
            while Instant::now() < decided.min(deadline) {
                match self.standing().leader {
                    Some(leader) if leader == id => return Ok(()),
                    // Somebody else was quicker: it is theirs to hand over.
                    Some(leader) if leader != self.id() => return Err(Error::LeaderChanged),
                    _ => tokio::time::sleep(LOOK).await,
                }
            }
            if Instant::now() >= deadline {
                return Err(Error::TransferTimedOut);
            }
        }
    }

    fn is_voter(&self, id: u64) -> bool {
        let metrics = self.raft().metrics();
        let membership = metrics.borrow().membership_config.clone();
        membership.voter_ids().any(|voter| voter == id)
    }

    /// Waits until a member has every entry up to `index`, or to the very last one.
    async fn has_matched(&self, id: u64, index: Option<u64>, deadline: Instant) -> Result<()> {
        let mut metrics = self.raft().metrics();
        let caught_up = metrics.wait_for(move |m| {
            let matched = m.replication.as_ref().and_then(|members| members.get(&id)).copied().flatten();
            m.current_leader != Some(m.id) || matched.index() >= index.or(m.last_log_index)
        });
        let caught_up = tokio::time::timeout_at(deadline, caught_up).await.map_err(|_| Error::TransferTimedOut)?;
        caught_up.map(|_| ()).map_err(|_| Error::Stopped)
    }

    /// Whether this member is about to hand the lead over and accepts nothing.
    pub(super) fn is_leaving(&self) -> bool {
        self.0.leaving.load(Ordering::SeqCst)
    }
}
