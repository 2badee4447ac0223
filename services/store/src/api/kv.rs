//! KV: ranges and writes.
use std::pin::Pin;

use futures::Stream;
use prost::Message;
use tonic::{Request, Response, Status};
use trireme_proto::etcdserverpb::kv_server::Kv;
use trireme_proto::etcdserverpb::request_op::Request as OpRequest;
use trireme_proto::etcdserverpb::{
    AlarmRequest, AlarmType, CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse,
    PutRequest, PutResponse, RangeRequest, RangeResponse, RangeStreamResponse, RequestOp, ResponseHeader, TxnRequest,
    TxnResponse, alarm_request::AlarmAction,
};
use trireme_proto::raft::v1::Reply;
use trireme_proto::raft::v1::command::Op;
use trireme_proto::raft::v1::reply::Answer;

use super::{Api, MAX_REQUEST, TRANSPORT_LIMIT};
use crate::error::{Error, Result};
use crate::mvcc::{self, RangeQuery, State};

/// Keys that one part of a streamed range holds, about.
const STREAM_BYTES: usize = 1 << 20;

impl Api {
    async fn write(&self, op: Op, size: usize, grows: bool) -> Result<Reply> {
        if size > TRANSPORT_LIMIT {
            return Err(Error::MessageTooLarge(size, TRANSPORT_LIMIT));
        }
        if size > MAX_REQUEST {
            return Err(Error::RequestTooLarge);
        }
        if grows && self.node.view().state.size() > self.settings.quota {
            self.raise_no_space().await?;
        }
        self.node.propose(op).await
    }

    /// The quota is spent: writes that need space are refused until the alarm is taken back.
    async fn raise_no_space(&self) -> Result<()> {
        let alarm = (self.node.id(), AlarmType::Nospace as i32);
        if !self.node.view().state.alarms.contains(&alarm) {
            let request = AlarmRequest { action: AlarmAction::Activate as i32, member_id: alarm.0, alarm: alarm.1 };
            self.node.propose(Op::Alarm(request)).await?;
        }
        Err(Error::NoSpace)
    }

    fn fill(&self, header: Option<ResponseHeader>) -> Option<ResponseHeader> {
        self.header(header.map_or(0, |h| h.revision))
    }

    async fn ranged(&self, request: &RangeRequest) -> Result<RangeResponse> {
        mvcc::check_range(request)?;
        let view = self.view(request.serializable).await?;
        let mut response = view.state.range(request, None)?;
        response.header = self.fill(response.header);
        Ok(response)
    }
}

fn unexpected(_: Option<Answer>) -> Error {
    Error::Protocol("the command's reply is another command's".into())
}

/// A read-only transaction may be answered by the member as it is if each of its reads may.
fn is_serializable(request: &TxnRequest) -> bool {
    let serializable = |op: &RequestOp| matches!(&op.request, Some(OpRequest::RequestRange(r)) if r.serializable);
    request.success.iter().chain(&request.failure).all(serializable)
}

#[tonic::async_trait]
impl Kv for Api {
    async fn range(&self, request: Request<RangeRequest>) -> Result<Response<RangeResponse>, Status> {
        Ok(Response::new(self.ranged(&request.into_inner()).await?))
    }

    type RangeStreamStream = Pin<Box<dyn Stream<Item = Result<RangeStreamResponse, Status>> + Send>>;

    async fn range_stream(&self, request: Request<RangeRequest>) -> Result<Response<Self::RangeStreamStream>, Status> {
        let request = request.into_inner();
        mvcc::check_range(&request)?;
        RangeQuery(&request).is_plain().map_err(Error::Unsupported)?;
        let response = self.ranged(&request).await?;
        let parts = split(response).into_iter().map(|part| Ok(RangeStreamResponse { range_response: Some(part) }));
        Ok(Response::new(Box::pin(tokio_stream::iter(parts))))
    }

    async fn put(&self, request: Request<PutRequest>) -> Result<Response<PutResponse>, Status> {
        let request = request.into_inner();
        mvcc::check_put(&request)?;
        let size = request.encoded_len();
        match self.write(Op::Put(request), size, true).await?.answer {
            Some(Answer::Put(mut response)) => {
                response.header = self.fill(response.header);
                Ok(Response::new(response))
            }
            other => Err(unexpected(other).into()),
        }
    }

    async fn delete_range(
        &self,
        request: Request<DeleteRangeRequest>,
    ) -> Result<Response<DeleteRangeResponse>, Status> {
        let request = request.into_inner();
        if request.key.is_empty() {
            return Err(Error::EmptyKey.into());
        }
        let size = request.encoded_len();
        match self.write(Op::DeleteRange(request), size, false).await?.answer {
            Some(Answer::DeleteRange(mut response)) => {
                response.header = self.fill(response.header);
                Ok(Response::new(response))
            }
            other => Err(unexpected(other).into()),
        }
    }

    async fn txn(&self, request: Request<TxnRequest>) -> Result<Response<TxnResponse>, Status> {
        let request = request.into_inner();
        mvcc::check_txn(&request)?;
        let mut response = if mvcc::is_read_only(&request) {
            let view = self.view(is_serializable(&request)).await?;
            let mut state: State = view.state.clone();
            state.txn(&request)?.0
        } else {
            // One that only deletes has to be taken when the quota is spent: it is the way out.
            let (size, grows) = (request.encoded_len(), mvcc::puts_something(&request));
            match self.write(Op::Txn(request), size, grows).await?.answer {
                Some(Answer::Txn(response)) => response,
                other => return Err(unexpected(other).into()),
            }
        };
        response.header = self.fill(response.header);
        Ok(Response::new(response))
    }

    async fn compact(&self, request: Request<CompactionRequest>) -> Result<Response<CompactionResponse>, Status> {
        let reply = self.node.propose(Op::Compact(request.into_inner())).await?;
        Ok(Response::new(CompactionResponse { header: self.header(reply.revision) }))
    }
}

/// Cuts a range into parts: the keys come in all of them, what is said about the whole in the last one.
fn split(response: RangeResponse) -> Vec<RangeResponse> {
    let mut parts = vec![RangeResponse::default()];
    let mut bytes = 0;
    for kv in response.kvs {
        let size = kv.encoded_len();
        if bytes > 0 && bytes + size > STREAM_BYTES {
            parts.push(RangeResponse::default());
            bytes = 0;
        }
        bytes += size;
        if let Some(part) = parts.last_mut() {
            part.kvs.push(kv);
        }
    }
    if let Some(last) = parts.last_mut() {
        (last.header, last.more, last.count) = (response.header, response.more, response.count);
    }
    parts
}
