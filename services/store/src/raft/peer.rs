//! What the other members ask of this one.
use openraft::Snapshot;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, VoteRequest};
use prost::Message;
use tokio::io::AsyncWriteExt;
use tonic::{Request, Response, Status, Streaming};
use trireme_proto::raft::v1 as pb;
use trireme_proto::raft::v1::append_entries_response::Outcome;
use trireme_proto::raft::v1::peer_server::{Peer, PeerServer};

use super::Node;
use super::network::MESSAGE_BYTES;
use super::types::{
    entry_from_proto, log_id_from_proto, log_id_to_proto, meta_from_proto, proposal_from_proto, vote_from_proto,
    vote_to_proto,
};
use crate::error::{Error, Result};

/// The service on the peer port.
#[derive(Clone)]
pub(crate) struct PeerService {
    node: Node,
}

impl PeerService {
    pub(crate) fn server(node: Node) -> PeerServer<Self> {
        PeerServer::new(Self { node }).max_decoding_message_size(MESSAGE_BYTES).max_encoding_message_size(MESSAGE_BYTES)
    }

    fn check(&self, cluster_id: u64) -> Result<()> {
        if cluster_id == self.node.cluster_id() { Ok(()) } else { Err(Error::ClusterMismatch) }
    }
}

fn stopped(error: impl std::fmt::Display) -> Status {
    Status::unavailable(error.to_string())
}

#[tonic::async_trait]
impl Peer for PeerService {
    async fn append_entries(
        &self,
        request: Request<pb::AppendEntriesRequest>,
    ) -> Result<Response<pb::AppendEntriesResponse>, Status> {
        let message = request.into_inner();
        self.check(message.cluster_id)?;
        let entries = message.entries.into_iter().map(entry_from_proto).collect::<Result<Vec<_>>>()?;
        let rpc = AppendEntriesRequest {
            vote: vote_from_proto(message.vote.unwrap_or_default()),
            prev_log_id: message.prev_log_id.map(log_id_from_proto),
            leader_commit: message.leader_commit.map(log_id_from_proto),
            entries,
        };
        let mut answer = pb::AppendEntriesResponse::default();
        match self.node.raft().append_entries(rpc).await.map_err(stopped)? {
            AppendEntriesResponse::Success => answer.set_outcome(Outcome::Success),
            AppendEntriesResponse::PartialSuccess(matching) => {
                answer.set_outcome(Outcome::Partial);
                answer.matching = matching.as_ref().map(log_id_to_proto);
            }
            AppendEntriesResponse::Conflict => answer.set_outcome(Outcome::Conflict),
            AppendEntriesResponse::HigherVote(vote) => {
                answer.set_outcome(Outcome::HigherVote);
                answer.vote = Some(vote_to_proto(&vote));
            }
        }
        Ok(Response::new(answer))
    }

    async fn vote(&self, request: Request<pb::VoteRequest>) -> Result<Response<pb::VoteResponse>, Status> {
        let message = request.into_inner();
        self.check(message.cluster_id)?;
        let vote = vote_from_proto(message.vote.unwrap_or_default());
        let rpc = VoteRequest::new(vote, message.last_log_id.map(log_id_from_proto));
        let answer = self.node.raft().vote(rpc).await.map_err(stopped)?;
        Ok(Response::new(pb::VoteResponse {
            vote: Some(vote_to_proto(&answer.vote)),
            vote_granted: answer.vote_granted,
            last_log_id: answer.last_log_id.as_ref().map(log_id_to_proto),
        }))
    }

    async fn install_snapshot(
        &self,
        request: Request<Streaming<pb::SnapshotChunk>>,
    ) -> Result<Response<pb::SnapshotResponse>, Status> {
        let mut chunks = request.into_inner();
        let first = chunks.message().await?.ok_or_else(|| Status::invalid_argument("an empty snapshot"))?;
        self.check(first.cluster_id)?;
        let vote = vote_from_proto(first.vote.unwrap_or_default());
        let meta = meta_from_proto(first.meta.unwrap_or_default());
        let _one_at_a_time = self.node.receiving().await;
        let mut file = self.node.raft().begin_receiving_snapshot().await.map_err(stopped)?;
        file.write_all(&first.data).await?;
        while let Some(chunk) = chunks.message().await? {
            file.write_all(&chunk.data).await?;
        }
        file.flush().await?;
        let snapshot = Snapshot { meta, snapshot: file };
        let answer = self.node.raft().install_full_snapshot(vote, snapshot).await.map_err(stopped)?;
        Ok(Response::new(pb::SnapshotResponse { vote: Some(vote_to_proto(&answer.vote)) }))
    }

    async fn propose(&self, request: Request<pb::ProposeRequest>) -> Result<Response<pb::ProposeResponse>, Status> {
        let message = request.into_inner();
        self.check(message.cluster_id)?;
        let proposal = proposal_from_proto(message.proposal.unwrap_or_default());
        // An error before the proposal stands is a status; one from applying it is part of the reply.
        let committed = self.node.propose_here(proposal).await?;
        let reply = committed.outcome.unwrap_or_else(|e| pb::Reply { error: e.number(), ..Default::default() });
        Ok(Response::new(pb::ProposeResponse {
            log_index: committed.index,
            term: committed.term,
            reply: reply.encode_to_vec().into(),
        }))
    }

    async fn read_index(
        &self,
        request: Request<pb::ReadIndexRequest>,
    ) -> Result<Response<pb::ReadIndexResponse>, Status> {
        self.check(request.into_inner().cluster_id)?;
        let (log_index, term) = self.node.read_index_here().await?;
        Ok(Response::new(pb::ReadIndexResponse { log_index, term }))
    }

    async fn renew(&self, request: Request<pb::RenewRequest>) -> Result<Response<pb::RenewResponse>, Status> {
        let message = request.into_inner();
        self.check(message.cluster_id)?;
        let time = self.node.lease_time_here(message.lease, !message.look).await?;
        Ok(Response::new(pb::RenewResponse {
            found: time.is_some(),
            granted_ttl: time.map_or(0, |t| t.granted),
            remaining_ttl: time.map_or(0, |t| t.remaining),
        }))
    }

    async fn describe(&self, request: Request<pb::DescribeRequest>) -> Result<Response<pb::Node>, Status> {
        self.check(request.into_inner().cluster_id)?;
        let member = self.node.me();
        Ok(Response::new(pb::Node {
            id: self.node.id(),
            name: member.name.clone(),
            peer_urls: member.peer_urls.clone(),
            client_urls: member.client_urls.clone(),
        }))
    }

    async fn campaign(&self, request: Request<pb::CampaignRequest>) -> Result<Response<pb::CampaignResponse>, Status> {
        self.check(request.into_inner().cluster_id)?;
        self.node.raft().trigger().elect().await.map_err(stopped)?;
        Ok(Response::new(pb::CampaignResponse {}))
    }
}
