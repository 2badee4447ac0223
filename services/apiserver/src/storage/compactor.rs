//! Drops old revisions, by upstream's protocol, so that any number of API servers (stock ones too) compact once an
//! interval: the version of `compact_rev_key` counts the rounds, its value is the revision compacted last. Who raises the
//! version compacts to the revision that the store had one interval before.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep};
use trireme_proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use trireme_proto::etcdserverpb::request_op::Request as Op;
use trireme_proto::etcdserverpb::response_op::Response as OpResponse;
use trireme_proto::etcdserverpb::{CompactionRequest, Compare, PutRequest, RangeRequest, RequestOp, TxnRequest};

use super::Client;
use crate::error::Error;

/// Upstream's key.
pub const KEY: &str = "compact_rev_key";
const PATIENCE: Duration = Duration::from_secs(30);

/// Compacts for ever.
pub async fn run(client: Client, interval: Duration) {
    if interval.is_zero() {
        return;
    }
    let (mut version, mut revision) = (0, 0);
    loop {
        match round(&client, version, revision).await {
            Ok((next_version, next_revision)) => (version, revision) = (next_version, next_revision),
            Err(error) => tracing::warn!(%error, "compaction failed; the next round tries again"),
        }
        sleep(interval).await;
    }
}

/// The revision compacted last, as the key tells it.
pub async fn compacted(client: &Client, deadline: Instant) -> Result<i64, Error> {
    let (kv, _) = client.get(KEY, deadline).await?;
    Ok(kv.and_then(|kv| std::str::from_utf8(&kv.value).ok()?.parse().ok()).unwrap_or(0))
}

/// One round: raises the version from `version`, and compacts to `revision` where nobody else has. Answers the version
/// and the store's revision for the next round.
async fn round(client: &Client, version: i64, revision: i64) -> Result<(i64, i64), Error> {
    let request = TxnRequest {
        compare: vec![Compare {
            result: CompareResult::Equal.into(),
            target: CompareTarget::Version.into(),
            key: Bytes::from_static(KEY.as_bytes()),
            target_union: Some(TargetUnion::Version(version)),
            ..Compare::default()
        }],
        success: vec![RequestOp {
            request: Some(Op::RequestPut(PutRequest {
                key: Bytes::from_static(KEY.as_bytes()),
                value: revision.to_string().into(),
                ..PutRequest::default()
            })),
        }],
        failure: vec![RequestOp {
            request: Some(Op::RequestRange(RangeRequest {
                key: Bytes::from_static(KEY.as_bytes()),
                ..RangeRequest::default()
            })),
        }],
    };
    let answer = client
        .call(Instant::now() + PATIENCE, |mut member| {
            let request = request.clone();
            async move { member.kv.txn(request).await }
        })
        .await?
        .answer;
    let now = answer.header.as_ref().map_or(0, |header| header.revision);
    if !answer.succeeded {
        let seen = answer.responses.first().and_then(|response| match &response.response {
            Some(OpResponse::ResponseRange(range)) => range.kvs.first().map(|kv| kv.version),
            _ => None,
        });
        return Ok((seen.unwrap_or(0), now));
    }
    if revision > 0 {
        let request = CompactionRequest { revision, ..CompactionRequest::default() };
        client.call(Instant::now() + PATIENCE, |mut member| async move { member.kv.compact(request).await }).await?;
        tracing::info!(revision, "compacted");
    }
    Ok((version + 1, now))
}
