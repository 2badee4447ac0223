//! Maintenance.
use std::pin::Pin;

use futures::Stream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};
use trireme_proto::etcdserverpb as pb;
use trireme_proto::etcdserverpb::alarm_request::AlarmAction;
use trireme_proto::etcdserverpb::maintenance_server::Maintenance;
use trireme_proto::raft::v1::SnapshotMeta;
use trireme_proto::raft::v1::command::Op;
use trireme_proto::raft::v1::reply::Answer;

use super::Api;
use crate::error::Error;
use crate::mvcc::write_snapshot;

/// The etcd version whose API this is. Kubernetes looks at it to know what it can ask for.
pub(super) const VERSION: &str = "3.6.0";
const STORAGE_VERSION: &str = "3.6.0";

#[tonic::async_trait]
impl Maintenance for Api {
    async fn alarm(&self, request: Request<pb::AlarmRequest>) -> Result<Response<pb::AlarmResponse>, Status> {
        let request = request.into_inner();
        if request.action() == AlarmAction::Get {
            let view = self.view(false).await?;
            let wanted = |kind: i32| request.alarm == pb::AlarmType::None as i32 || request.alarm == kind;
            let alarms = view.state.alarms.iter().filter(|(_, kind)| wanted(*kind));
            let alarms = alarms.map(|(member, alarm)| pb::AlarmMember { member_id: *member, alarm: *alarm }).collect();
            return Ok(Response::new(pb::AlarmResponse { header: self.header(view.state.revision), alarms }));
        }
        let reply = self.node.propose(Op::Alarm(request)).await?;
        let alarms = if let Some(Answer::Alarm(answer)) = reply.answer { answer.alarms } else { Vec::new() };
        Ok(Response::new(pb::AlarmResponse { header: self.header(reply.revision), alarms }))
    }

    async fn status(&self, _request: Request<pb::StatusRequest>) -> Result<Response<pb::StatusResponse>, Status> {
        let (view, standing) = (self.node.view(), self.node.standing());
        let mut errors: Vec<String> = view
            .state
            .alarms
            .iter()
            .map(|(member, kind)| {
                let kind = pb::AlarmType::try_from(*kind).map_or("UNKNOWN", |k| k.as_str_name());
                // etcd prints the alarm with its protobuf library's text form, which has two blanks.
                format!("memberID:{member}  alarm:{kind}")
            })
            .collect();
        if standing.leader.is_none() {
            errors.push(Error::NoLeader.to_string());
        }
        let size = (view.state.size() + self.node.log_bytes()) as i64;
        Ok(Response::new(pb::StatusResponse {
            header: self.header(view.state.revision),
            version: VERSION.into(),
            db_size: size.max(1),
            leader: standing.leader.unwrap_or_default(),
            raft_index: standing.last_index,
            raft_term: standing.term,
            raft_applied_index: view.applied,
            errors,
            db_size_in_use: (view.state.size() as i64).max(1),
            is_learner: standing.learner,
            storage_version: STORAGE_VERSION.into(),
            db_size_quota: self.settings.quota as i64,
            downgrade_info: Some(pb::DowngradeInfo::default()),
        }))
    }

    async fn defragment(
        &self,
        _request: Request<pb::DefragmentRequest>,
    ) -> Result<Response<pb::DefragmentResponse>, Status> {
        // Snapshot files hold no gaps, so there is nothing to close.
        Ok(Response::new(pb::DefragmentResponse { header: None }))
    }

    async fn hash(&self, _request: Request<pb::HashRequest>) -> Result<Response<pb::HashResponse>, Status> {
        let view = self.node.view();
        let header = self.header(view.state.revision);
        let (hash, _) = hashed(view, 0).await?;
        Ok(Response::new(pb::HashResponse { header, hash }))
    }

    async fn hash_kv(&self, request: Request<pb::HashKvRequest>) -> Result<Response<pb::HashKvResponse>, Status> {
        let view = self.node.view();
        let (header, compact_revision) = (self.header(view.state.revision), view.state.compacted);
        let (hash, hash_revision) = hashed(view, request.into_inner().revision).await?;
        Ok(Response::new(pb::HashKvResponse { header, hash, compact_revision, hash_revision }))
    }

    type SnapshotStream = Pin<Box<dyn Stream<Item = Result<pb::SnapshotResponse, Status>> + Send>>;

    async fn snapshot(&self, _request: Request<pb::SnapshotRequest>) -> Result<Response<Self::SnapshotStream>, Status> {
        let (view, header) = (self.node.view(), self.header_now());
        let cluster_id = self.node.cluster_id();
        let (parts, stream) = mpsc::channel(4);
        tokio::task::spawn_blocking(move || {
            let mut counter = Counter(0);
            let meta = SnapshotMeta { snapshot_id: "backup".into(), ..Default::default() };
            // Once to know how long it is, once to send it: memory holds one part only.
            let total = match write_snapshot(&view.state, meta.clone(), cluster_id, &mut counter) {
                Ok(total) => total,
                Err(error) => return drop(parts.blocking_send(Err(Status::internal(error.to_string())))),
            };
            let sender = PartSender { header, parts: parts.clone(), left: total, part: Vec::with_capacity(PART) };
            if let Err(error) = write_snapshot(&view.state, meta, cluster_id, sender) {
                let _ = parts.blocking_send(Err(Status::internal(error.to_string())));
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }

    async fn move_leader(
        &self,
        request: Request<pb::MoveLeaderRequest>,
    ) -> Result<Response<pb::MoveLeaderResponse>, Status> {
        let target = request.into_inner().target_id;
        let standing = self.node.standing();
        if !standing.leads {
            return Err(Error::NotLeader.into());
        }
        if !self.node.members().contains_key(&target) {
            return Err(Error::BadTransferee.into());
        }
        if target != self.node.id() {
            self.node.hand_over(target).await?;
        }
        Ok(Response::new(pb::MoveLeaderResponse { header: self.header_now() }))
    }

    async fn downgrade(
        &self,
        request: Request<pb::DowngradeRequest>,
    ) -> Result<Response<pb::DowngradeResponse>, Status> {
        match pb::downgrade_request::DowngradeAction::try_from(request.into_inner().action) {
            Err(_) => Err(Status::unknown("etcdserver: unknown method")),
            Ok(_) => Err(Status::failed_precondition("etcdserver: not capable")),
        }
    }
}

async fn hashed(view: std::sync::Arc<crate::raft::View>, revision: i64) -> Result<(u32, i64), Error> {
    let hash = tokio::task::spawn_blocking(move || view.state.hash(revision));
    hash.await?
}

/// Bytes of a snapshot in one message.
const PART: usize = 256 << 10;

struct Counter(u64);

impl std::io::Write for Counter {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.0 += buf.len() as u64;
        Ok(buf.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

struct PartSender {
    header: Option<pb::ResponseHeader>,
    parts: mpsc::Sender<Result<pb::SnapshotResponse, Status>>,
    left: u64,
    part: Vec<u8>,
}

impl PartSender {
    fn send(&mut self) -> std::io::Result<()> {
        let blob = std::mem::replace(&mut self.part, Vec::with_capacity(PART));
        if blob.is_empty() {
            return Ok(());
        }
        self.left = self.left.saturating_sub(blob.len() as u64);
        let part = pb::SnapshotResponse {
            header: self.header,
            remaining_bytes: self.left,
            blob: blob.into(),
            version: VERSION.into(),
        };
        self.parts.blocking_send(Ok(part)).map_err(|_| std::io::ErrorKind::BrokenPipe.into())
    }
}

impl std::io::Write for PartSender {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        let room = PART - self.part.len();
        let taken = buf.len().min(room);
        self.part.extend_from_slice(&buf[..taken]);
        if self.part.len() == PART {
            self.send()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.send()
    }
}
