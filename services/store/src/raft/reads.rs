//! Read indexes: one round to the members serves every read that waited when it began. A read that arrives later waits
//! for the next round, since the round under way may have begun before a write that it has to see.
use std::time::Duration;

use openraft::error::{CheckIsLeaderError, RaftError};
use tokio::sync::{mpsc, oneshot};

use super::types::Raft;
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
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        match raft.get_read_log_id().await {
            Ok((index, _)) => return Ok(index.map_or((0, 0), |id| (id.index, id.leader_id.term))),
            Err(RaftError::Fatal(_)) => return Err(Error::Stopped),
            Err(RaftError::APIError(CheckIsLeaderError::ForwardToLeader(_))) => return Err(Error::NotLeader),
            Err(RaftError::APIError(CheckIsLeaderError::QuorumNotEnough(_))) => {
                if tokio::time::Instant::now() >= deadline {
                    return Err(Error::TimedOut);
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}
