//! The proposer: gathers what arrives while a write is under way into one log entry, so that a loaded store makes one
//! fsync and one round to the members for many clients. It owns the queue; each command keeps its own outcome.
use std::sync::Arc;

use openraft::error::{ClientWriteError, RaftError};
use tokio::sync::{Semaphore, mpsc, oneshot};
use trireme_proto::raft::v1 as pb;

use super::types::{Batch, Proposal, Raft};
use crate::error::{Error, Result};

/// Commands and bytes of one entry.
const BATCH_COMMANDS: usize = 512;
const BATCH_BYTES: usize = 512 << 10;
/// Entries under way: one is written here while the one before is at the members.
const UNDER_WAY: usize = 2;
/// Commands that wait; more are refused.
pub(super) const QUEUE: usize = 8192;

/// A command that stands in the log and was applied.
#[derive(Debug)]
pub(crate) struct Committed {
    /// Its place.
    pub index: u64,
    /// Its term.
    pub term: u64,
    /// What applying it gave.
    pub outcome: Result<pb::Reply>,
}

/// A command that waits, and who waits for it.
pub(super) struct Pending {
    pub(super) proposal: Proposal,
    pub(super) done: oneshot::Sender<Result<Committed>>,
}

/// Runs until the queue is closed.
pub(super) async fn run(raft: Raft, mut queue: mpsc::Receiver<Pending>) {
    let slots = Arc::new(Semaphore::new(UNDER_WAY));
    let mut kept: Option<Pending> = None;
    loop {
        let first = match kept.take() {
            Some(pending) => pending,
            None => match queue.recv().await {
                Some(pending) => pending,
                None => return,
            },
        };
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        let mut bytes = first.proposal.command.len();
        let mut batch = vec![first];
        while batch.len() < BATCH_COMMANDS {
            let Ok(next) = queue.try_recv() else { break };
            bytes += next.proposal.command.len();
            if bytes > BATCH_BYTES {
                kept = Some(next);
                break;
            }
            batch.push(next);
        }
        metrics::histogram!("trireme_store_batch_commands").record(batch.len() as f64);
        let raft = raft.clone();
        tokio::spawn(async move {
            write(&raft, batch).await;
            drop(slot);
        });
    }
}

async fn write(raft: &Raft, batch: Vec<Pending>) {
    let (proposals, waiting): (Vec<_>, Vec<_>) = batch.into_iter().map(|p| (p.proposal, p.done)).unzip();
    match raft.client_write(Batch(proposals.into())).await {
        Ok(written) => {
            let (index, term) = (written.log_id.index, written.log_id.leader_id.term);
            for (done, outcome) in waiting.into_iter().zip(written.data.each) {
                let _ = done.send(Ok(Committed { index, term, outcome }));
            }
        }
        Err(error) => {
            let error = match error {
                // The entry may stand in the log of another member, so nobody may try it again.
                RaftError::APIError(ClientWriteError::ForwardToLeader(_)) => Error::LeaderChanged,
                RaftError::APIError(other) => Error::raft("a write")(other),
                RaftError::Fatal(_) => Error::Stopped,
            };
            for done in waiting {
                let _ = done.send(Err(error.clone()));
            }
        }
    }
}
