//! Writes: a command goes to the leader, wherever that is, and comes back when it was applied here too.
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tonic::Code;
use tracing::Instrument;
use trireme_proto::raft::v1 as pb;
use trireme_proto::raft::v1::command::Op;

use super::proposer::{Committed, Pending};
use super::types::{self, Proposal};
use super::{Node, REQUEST_TIME};
use crate::error::{Error, Result};

impl Node {
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
            if Instant::now() >= deadline {
                return Err(Error::TimedOut);
            }
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
        let answer = match self.answered(leader, deadline, client.propose(request)).await {
            // As below: it may have been written.
            Err(error) => return Err(error),
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
        let reply = pb::Reply::decode(answer.reply).map_err(Error::decode("the leader's reply"))?;
        Ok(Some(if reply.error == 0 { Ok(reply) } else { Err(Error::from_number(reply.error)) }))
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
