//! The way to the other members.
use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::Arc;

use openraft::error::{
    Fatal, NetworkError, RPCError, RaftError, ReplicationClosed, StreamingError, Timeout, Unreachable,
};
use openraft::network::{Backoff, RPCOption};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse, SnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::{AnyError, EntryPayload, RPCTypes, RaftNetwork, RaftNetworkFactory, Snapshot};
use parking_lot::Mutex;
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Request, Status};
use tracing::Instrument;
use trireme_proto::raft::v1 as pb;
use trireme_proto::raft::v1::append_entries_response::Outcome;
use trireme_proto::raft::v1::peer_client::PeerClient;

use super::types::{
    Entry, LogId, Member, TypeConfig, Vote, entry_to_proto, log_id_from_proto, log_id_to_proto, meta_to_proto,
    vote_from_proto, vote_to_proto,
};
use crate::error::{Error, Result};

/// Messages between members may hold this much; a message is cut long before.
pub(super) const MESSAGE_BYTES: usize = 64 << 20;
const CHUNK: usize = 1 << 20;
/// How long a member may take to take entries in.
const APPEND_TIME: std::time::Duration = std::time::Duration::from_secs(5);
/// How long a snapshot may take to arrive and to be installed.
const SNAPSHOT_TIME: std::time::Duration = std::time::Duration::from_secs(120);

pub(super) type Client = PeerClient<Channel>;

/// Connections to the other members, one each, made when needed and made again when lost. Clones share them.
#[derive(Clone)]
pub(crate) struct Peers {
    cluster_id: u64,
    tls: Option<Arc<rustls::ClientConfig>>,
    channels: Arc<Mutex<HashMap<u64, (String, Channel)>>>,
    away: Arc<Mutex<HashSet<u64>>>,
    /// Entries up to this one were in the log when it was opened: their spans were told long ago.
    told: u64,
}

impl Peers {
    pub(crate) fn new(cluster_id: u64, tls: Option<Arc<rustls::ClientConfig>>, told: u64) -> Self {
        Self { cluster_id, tls, channels: Arc::default(), away: Arc::default(), told }
    }

    /// Says it once when a member goes away, and once when it is back.
    fn note(&self, id: u64, member: &Member, reached: Result<(), &Status>) {
        let mut away = self.away.lock();
        match reached {
            Ok(()) if away.remove(&id) => tracing::info!(member = member.name, "a member is back"),
            Err(status) if away.insert(id) => {
                tracing::warn!(member = member.name, error = status.message(), "a member cannot be reached");
            }
            _ => {}
        }
    }

    /// A client for a member.
    pub(super) fn client(&self, id: u64, member: &Member) -> Result<Client> {
        let url = member.peer_urls.first().ok_or(Error::MemberBadUrls)?;
        let mut channels = self.channels.lock();
        let known = channels.get(&id).filter(|(known, _)| known == url);
        let channel = match known {
            Some((_, channel)) => channel.clone(),
            None => {
                let channel = trireme_service::tls::channel(url, self.tls.clone(), None);
                let channel = channel.map_err(|e| Error::Config(e.to_string()))?;
                channels.insert(id, (url.clone(), channel.clone()));
                channel
            }
        };
        Ok(PeerClient::new(channel).max_decoding_message_size(MESSAGE_BYTES).max_encoding_message_size(MESSAGE_BYTES))
    }
}

impl RaftNetworkFactory<TypeConfig> for Peers {
    type Network = Peer;

    async fn new_client(&mut self, target: u64, node: &Member) -> Peer {
        Peer { target, member: node.clone(), peers: self.clone(), under_way: None, matched: None, reverted: false }
    }
}

/// The way to one member.
pub(crate) struct Peer {
    target: u64,
    member: Member,
    peers: Peers,
    under_way: Option<UnderWay>,
    /// What the member said that it has, since this one leads.
    matched: Option<LogId>,
    /// It has less by now.
    reverted: bool,
}

/// Entries on their way. The library stops waiting after a heartbeat's time and asks again; what is under way goes on, so
/// that a large message to a slow member arrives at all.
struct UnderWay {
    vote: Vote,
    prev: Option<LogId>,
    last: Option<LogId>,
    answer: tokio::task::JoinHandle<Result<tonic::Response<pb::AppendEntriesResponse>, Status>>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.answer.abort();
    }
}

type RpcError<E = RaftError<u64>> = RPCError<u64, Member, E>;

fn unreachable(error: &Error) -> Unreachable {
    Unreachable::from(AnyError::new(error))
}

fn failed<E: std::error::Error>(status: &Status) -> RpcError<E> {
    match status.code() {
        tonic::Code::Unavailable | tonic::Code::FailedPrecondition => Unreachable::new(status).into(),
        _ => NetworkError::new(status).into(),
    }
}

impl Peer {
    fn client(&self) -> Result<Client, Unreachable> {
        self.peers.client(self.target, &self.member).map_err(|e| unreachable(&e))
    }

    fn send(&self, rpc: &AppendEntriesRequest<TypeConfig>, last: Option<LogId>) -> Result<UnderWay, Unreachable> {
        let mut client = self.client()?;
        let span = replicated(&self.member.name, &rpc.entries, self.peers.told);
        let message = pb::AppendEntriesRequest {
            cluster_id: self.peers.cluster_id,
            vote: Some(vote_to_proto(&rpc.vote)),
            prev_log_id: rpc.prev_log_id.as_ref().map(log_id_to_proto),
            leader_commit: rpc.leader_commit.as_ref().map(log_id_to_proto),
            entries: rpc.entries.iter().map(entry_to_proto).collect(),
        };
        let mut request = Request::new(message);
        request.set_timeout(APPEND_TIME);
        let answer = tokio::spawn(async move { client.append_entries(request).await }.instrument(span));
        Ok(UnderWay { vote: rpc.vote, prev: rpc.prev_log_id, last, answer })
    }

    /// The member lacks entries that it had acknowledged: its data was lost. The library would end the leader over it, so
    /// it is taken for a member that is not there. Another leader, which knows nothing of what it acknowledged, takes it
    /// for one that is behind.
    fn reverted(&mut self, lacks: Option<LogId>) -> Unreachable {
        if !std::mem::replace(&mut self.reverted, true) {
            tracing::error!(
                member = self.member.name,
                entry = lacks.map(|id| id.index),
                "a member lost data that it had acknowledged and gets nothing more from this leader: hand the lead over \
                 (move-leader) while all others are well, and it is brought up to date"
            );
        }
        unreachable(&Error::Corrupt("the member lost data that it had acknowledged".into()))
    }

    fn request<T>(message: T, option: &RPCOption) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(option.hard_ttl());
        request
    }
}

fn replicated(peer: &str, entries: &[Entry], told: u64) -> tracing::Span {
    let proposals = entries.iter().filter(|e| e.log_id.index > told).filter_map(|e| match &e.payload {
        EntryPayload::Normal(batch) => Some(batch.0.iter()),
        _ => None,
    });
    crate::trace::replicate(peer, proposals.flatten().map(|p| &p.traceparent))
}

impl RaftNetwork<TypeConfig> for Peer {
    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<TypeConfig>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, RpcError> {
        let last = rpc.entries.last().map(|e| e.log_id).or(rpc.prev_log_id);
        // The same message again, or the first entries of it: never a mere heartbeat in place of entries.
        let begins = |sent: &UnderWay| sent.last == last || (sent.last > sent.prev && sent.last < last);
        let continues = |sent: &UnderWay| sent.vote == rpc.vote && sent.prev == rpc.prev_log_id && begins(sent);
        if !self.under_way.as_ref().is_some_and(continues) {
            self.under_way = Some(self.send(&rpc, last)?);
        }
        let Some(sent) = &mut self.under_way else { return Err(unreachable(&Error::Stopped).into()) };
        let (sent_prev, sent_last, answer) = (sent.prev, sent.last, (&mut sent.answer).await);
        self.under_way = None;
        let answer = answer.unwrap_or_else(|e| Err(Status::unavailable(e.to_string())));
        self.peers.note(self.target, &self.member, answer.as_ref().map(drop));
        let answer = answer.map_err(|s| failed(&s))?.into_inner();
        let outcome = answer.outcome();
        if outcome == Outcome::Conflict && sent_prev <= self.matched {
            return Err(self.reverted(sent_prev).into());
        }
        let has = match outcome {
            Outcome::Success => sent_last,
            Outcome::Partial => answer.matching.map(log_id_from_proto),
            _ => None,
        };
        self.matched = self.matched.max(has);
        // What was under way may have been less than what is asked for now.
        if outcome == Outcome::Success && sent_last != last {
            return Ok(AppendEntriesResponse::PartialSuccess(sent_last));
        }
        Ok(match outcome {
            Outcome::Success => AppendEntriesResponse::Success,
            Outcome::Partial => AppendEntriesResponse::PartialSuccess(answer.matching.map(log_id_from_proto)),
            Outcome::Conflict => AppendEntriesResponse::Conflict,
            Outcome::HigherVote => AppendEntriesResponse::HigherVote(vote_from_proto(answer.vote.unwrap_or_default())),
        })
    }

    async fn install_snapshot(
        &mut self,
        _rpc: InstallSnapshotRequest<TypeConfig>,
        _option: RPCOption,
    ) -> Result<InstallSnapshotResponse<u64>, RpcError<RaftError<u64, openraft::error::InstallSnapshotError>>> {
        // Snapshots go whole, by `full_snapshot`.
        Err(unreachable(&Error::Unsupported("snapshots are sent as one stream")).into())
    }

    async fn vote(&mut self, rpc: VoteRequest<u64>, option: RPCOption) -> Result<VoteResponse<u64>, RpcError> {
        let mut client = self.client()?;
        let message = pb::VoteRequest {
            cluster_id: self.peers.cluster_id,
            vote: Some(vote_to_proto(&rpc.vote)),
            last_log_id: rpc.last_log_id.as_ref().map(log_id_to_proto),
        };
        let answer = client.vote(Self::request(message, &option)).await.map_err(|s| failed(&s))?.into_inner();
        Ok(VoteResponse {
            vote: vote_from_proto(answer.vote.unwrap_or_default()),
            vote_granted: answer.vote_granted,
            last_log_id: answer.last_log_id.map(log_id_from_proto),
        })
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot<TypeConfig>,
        cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<u64>, StreamingError<TypeConfig, Fatal<u64>>> {
        let mut client = self.client()?;
        let (chunks, stream) = mpsc::channel(4);
        let first = pb::SnapshotChunk {
            cluster_id: self.peers.cluster_id,
            vote: Some(vote_to_proto(&vote)),
            meta: Some(meta_to_proto(&snapshot.meta)),
            ..Default::default()
        };
        let mut file = *snapshot.snapshot;
        let reading = async move {
            let mut chunk = first;
            loop {
                let mut data = Vec::with_capacity(CHUNK);
                let read = (&mut file).take(CHUNK as u64).read_to_end(&mut data).await?;
                if read == 0 && chunk.meta.is_none() {
                    return Ok(());
                }
                chunk.data = data.into();
                if chunks.send(std::mem::take(&mut chunk)).await.is_err() {
                    return Ok(());
                }
            }
        };
        let sending = async {
            let (answer, read) = tokio::join!(client.install_snapshot(ReceiverStream::new(stream)), reading);
            read.map_err(|e: std::io::Error| NetworkError::new(&e))?;
            let answer = answer.map_err(|s| NetworkError::new(&s))?.into_inner();
            Ok::<_, NetworkError>(SnapshotResponse::new(vote_from_proto(answer.vote.unwrap_or_default())))
        };
        tokio::select! {
            sent = tokio::time::timeout(SNAPSHOT_TIME, sending) => match sent {
                Ok(sent) => Ok(sent?),
                Err(_) => Err(StreamingError::Timeout(Timeout {
                    action: RPCTypes::InstallSnapshot, id: 0, target: self.target, timeout: SNAPSHOT_TIME,
                })),
            },
            closed = cancel => Err(StreamingError::Closed(closed)),
        }
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(std::iter::repeat(std::time::Duration::from_millis(100)))
    }
}
