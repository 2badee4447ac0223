//! Read indexes: one round to the members serves every read that waited when it began. A read that arrives later waits
//! for the next round, since the round under way may have begun before a write that it has to see.
use std::time::Duration;

use openraft::error::{CheckIsLeaderError, RaftError};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use trireme_proto::raft::v1 as pb;

use super::types::Raft;
use super::{Node, REQUEST_TIME};
use crate::error::{Error, Result};

/// Reads that wait for a round; more are refused.
pub(super) const QUEUE: usize = 16384;
/// How long a round is tried again while the members do not answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who waits for a read index: the index and the leader's term.
pub(super) type Waiting = oneshot::Sender<Result<(u64, u64)>>;

/// Runs until the queue is closed. Only a leader's rounds succeed.
pub(super) async fn run(raft: Raft, mut queue: mpsc::Receiver<Waiting>) {
    let mut waiting = Vec::new();
    while queue.recv_many(&mut waiting, QUEUE).await > 0 {
        let result = round(&raft).await;
        for reader in waiting.drain(..) {
            let _ = reader.send(result.clone());
        }
    }
}

async fn round(raft: &Raft) -> Result<(u64, u64)> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match raft.get_read_log_id().await {
            Ok((index, _)) => return Ok(index.map_or((0, 0), |id| (id.index, id.leader_id.term))),
            Err(RaftError::Fatal(_)) => return Err(Error::Stopped),
            Err(RaftError::APIError(CheckIsLeaderError::ForwardToLeader(_))) => return Err(Error::NotLeader),
            Err(RaftError::APIError(CheckIsLeaderError::QuorumNotEnough(_))) => {
                if Instant::now() >= deadline {
                    return Err(Error::TimedOut);
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

impl Node {
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
        let answer = self.answered(leader, deadline.min(Instant::now() + Duration::from_secs(2)), ask).await?;
        let answer = answer.map_err(|_| Error::NotLeader)?.into_inner();
        Ok((answer.log_index, answer.term))
    }

    /// Waits until an entry is applied here.
    pub(super) async fn applied(&self, index: u64, deadline: Instant) -> Result<()> {
        let mut views = self.0.outlet.views.clone();
        let reached = views.wait_for(|view| view.applied >= index);
        let reached = tokio::time::timeout_at(deadline, reached).await.map_err(|_| Error::TimedOut)?;
        reached.map(drop).map_err(|_| Error::Stopped)
    }
}
