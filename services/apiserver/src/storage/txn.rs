//! Transactions: every write of the API server is one.

use bytes::Bytes;
use tokio::time::Instant;
use trireme_proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use trireme_proto::etcdserverpb::request_op::Request as Op;
use trireme_proto::etcdserverpb::response_op::Response as OpResponse;
use trireme_proto::etcdserverpb::{Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest};
use trireme_proto::mvccpb::KeyValue;
use trireme_proto::resources::v1::Fence;
use trireme_telemetry::Cause;

use super::{Client, causes};
use crate::error::Error;

/// A change of one key that was computed from a version of it.
#[derive(Debug, Clone)]
pub struct Change {
    /// The key.
    pub key: String,
    /// The revision of the version it was computed from; 0 where there was none. None compares nothing.
    pub expected: Option<i64>,
    /// The new value; None deletes.
    pub value: Option<Bytes>,
    /// The store's lease that the value lives as long as; 0 is none.
    pub lease: i64,
    /// Why.
    pub cause: Option<Cause>,
}

/// Changes that happen together or not at all.
#[derive(Debug, Clone, Default)]
pub struct Transaction {
    /// The changes; the first is the one the request is about.
    pub changes: Vec<Change>,
    /// The claim the writer holds.
    pub fence: Option<Fence>,
    /// The key of the claim's record.
    pub fence_key: String,
}

/// How it went.
#[derive(Debug)]
pub enum Outcome {
    /// Written, at this revision.
    Written(i64),
    /// A version was not the expected one: the index of the first such change, and that key as it is now.
    Moved {
        /// Which change.
        index: usize,
        /// Its key now.
        current: Option<Box<KeyValue>>,
    },
    /// The writer's claim is no longer the one it named.
    ClaimLost {
        /// The revision of the claim's record now; 0 when it is gone.
        epoch: i64,
    },
}

// === impl Transaction ===

impl Transaction {
    /// A transaction of one change.
    pub fn of(change: Change) -> Self {
        Self { changes: vec![change], ..Self::default() }
    }

    /// Carries it out, once: when an attempt ended without an answer and the next one finds our own values in place,
    /// that is our write.
    pub async fn run(&self, client: &Client, deadline: Instant) -> Result<Outcome, Error> {
        let request = self.request();
        let answered = client
            .call(deadline, |mut member| {
                let request = request.clone();
                async move { member.kv.txn(request).await }
            })
            .await?;
        let answer = answered.answer;
        let revision = answer.header.as_ref().map_or(0, |header| header.revision);
        if answer.succeeded {
            return Ok(Outcome::Written(revision));
        }
        let mut found = answer.responses.into_iter().map(|response| match response.response {
            Some(OpResponse::ResponseRange(mut range)) => range.kvs.pop(),
            _ => None,
        });
        let compared = self.compared().count();
        let current: Vec<Option<KeyValue>> = found.by_ref().take(compared).collect();
        if answered.repeated {
            if let Some(revision) = self.already_done(&current, revision) {
                return Ok(Outcome::Written(revision));
            }
            if let Some(found) = self.created_before(&current) {
                return Ok(Outcome::Moved { index: 0, current: Some(Box::new(found)) });
            }
        }
        if let Some(fence) = &self.fence {
            let epoch = found.next().flatten().map_or(0, |kv| kv.mod_revision);
            if epoch != fence.epoch {
                return Ok(Outcome::ClaimLost { epoch });
            }
        }
        for ((index, change), current) in self.compared().zip(current) {
            if change.expected != Some(current.as_ref().map_or(0, |kv| kv.mod_revision)) {
                return Ok(Outcome::Moved { index, current: current.map(Box::new) });
            }
        }
        // The comparisons hold now and did not a moment ago: someone put the same version back, which etcd can't.
        Err(Error::Unexplained)
    }

    fn compared(&self) -> impl Iterator<Item = (usize, &Change)> {
        self.changes.iter().enumerate().filter(|(_, change)| change.expected.is_some())
    }

    /// The revision of our own write, if the compared keys are what we wanted to make of them. Values hold a uid and a
    /// time of ours or a version that moved on from the expected one, so that they are not another writer's.
    fn already_done(&self, current: &[Option<KeyValue>], now: i64) -> Option<i64> {
        let mut revision = None;
        for ((_, change), current) in self.compared().zip(current) {
            match (&change.value, current) {
                (Some(wanted), Some(kv)) if *wanted == kv.value && Some(kv.mod_revision) != change.expected => {
                    revision = Some(kv.mod_revision);
                }
                (None, None) if change.expected != Some(0) => revision = revision.or(Some(now)),
                _ => return None,
            }
        }
        revision
    }

    /// What is there already of the object that the first change creates: who created it knows whether it was us, and
    /// then the writer's claim was in order, whatever became of it since.
    fn created_before(&self, current: &[Option<KeyValue>]) -> Option<KeyValue> {
        let first = self.changes.first().filter(|change| change.expected == Some(0) && change.value.is_some());
        first.and_then(|_| current.first().cloned().flatten())
    }

    fn request(&self) -> TxnRequest {
        let mut request = TxnRequest::default();
        for (_, change) in self.compared() {
            request.compare.push(mod_is(&change.key, change.expected.unwrap_or_default()));
            request.failure.push(read(&change.key));
        }
        if let Some(fence) = &self.fence {
            request.compare.push(mod_is(&self.fence_key, fence.epoch));
            request.failure.push(read(&self.fence_key));
        }
        for change in &self.changes {
            let key = Bytes::copy_from_slice(change.key.as_bytes());
            let cause = causes::to_store(change.cause.as_ref(), self.fence.as_ref());
            let op = match &change.value {
                Some(value) => Op::RequestPut(PutRequest {
                    key,
                    value: value.clone(),
                    lease: change.lease,
                    cause,
                    ..PutRequest::default()
                }),
                None => Op::RequestDeleteRange(DeleteRangeRequest { key, cause, ..DeleteRangeRequest::default() }),
            };
            request.success.push(RequestOp { request: Some(op) });
        }
        request
    }
}

fn mod_is(key: &str, revision: i64) -> Compare {
    Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Mod.into(),
        key: Bytes::copy_from_slice(key.as_bytes()),
        target_union: Some(TargetUnion::ModRevision(revision)),
        ..Compare::default()
    }
}

fn read(key: &str) -> RequestOp {
    let range = RangeRequest { key: Bytes::copy_from_slice(key.as_bytes()), ..RangeRequest::default() };
    RequestOp { request: Some(Op::RequestRange(range)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(expected: i64, value: Option<&'static str>) -> Change {
        Change {
            key: "/registry/a".to_owned(),
            expected: Some(expected),
            value: value.map(Bytes::from),
            lease: 0,
            cause: None,
        }
    }

    fn kv(value: &'static str, mod_revision: i64) -> Option<KeyValue> {
        Some(KeyValue { value: value.into(), mod_revision, ..KeyValue::default() })
    }

    #[test]
    fn an_unanswered_write_is_recognised() {
        assert_eq!(Transaction::of(change(0, Some("x"))).already_done(&[kv("x", 7)], 9), Some(7));
        assert_eq!(Transaction::of(change(0, Some("x"))).already_done(&[kv("y", 7)], 9), None);
        assert_eq!(Transaction::of(change(5, Some("x"))).already_done(&[kv("x", 5)], 9), None);
        assert_eq!(Transaction::of(change(5, None)).already_done(&[None], 9), Some(9));
    }

    #[test]
    fn an_unanswered_create_that_others_changed_is_looked_at() {
        assert_eq!(Transaction::of(change(0, Some("x"))).created_before(&[kv("y", 7)]), kv("y", 7));
        assert_eq!(Transaction::of(change(0, Some("x"))).created_before(&[None]), None);
        assert_eq!(Transaction::of(change(5, Some("x"))).created_before(&[kv("y", 7)]), None);
    }

    #[test]
    fn a_fence_is_one_more_comparison() {
        let fence = Fence { epoch: 12, claim: "c".to_owned(), ..Fence::default() };
        let mut txn = Transaction::of(change(0, Some("x")));
        txn.fence = Some(fence);
        txn.fence_key = "/registry/leases/kube-system/c".to_owned();
        let request = txn.request();
        assert_eq!(request.compare.len(), 2);
        assert_eq!(request.compare[1].target_union, Some(TargetUnion::ModRevision(12)));
        assert_eq!(request.failure.len(), 2);
    }
}
