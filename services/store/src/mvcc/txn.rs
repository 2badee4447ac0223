//! Requests as transactions: what is refused beforehand, and what applying them does.
use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use trireme_proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use trireme_proto::etcdserverpb::range_request::{SortOrder, SortTarget};
use trireme_proto::etcdserverpb::request_op::Request;
use trireme_proto::etcdserverpb::response_op::Response;
use trireme_proto::etcdserverpb::{
    Compare, DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse, RangeRequest, RequestOp, ResponseHeader,
    ResponseOp, TxnRequest, TxnResponse,
};

use super::write::WriteTxn;
use super::{Bounds, Change, State, Version};
use crate::error::{Error, Result};

/// Operations a transaction may have, nested ones included.
const MAX_OPS: usize = 128;

// === before a request is proposed ===

/// Refuses a range that cannot be answered.
pub(crate) fn check_range(request: &RangeRequest) -> Result<()> {
    if request.key.is_empty() {
        return Err(Error::EmptyKey);
    }
    let sortable = SortOrder::try_from(request.sort_order).is_ok() && SortTarget::try_from(request.sort_target).is_ok();
    if sortable { Ok(()) } else { Err(Error::InvalidSortOption) }
}

/// Refuses a put that contradicts itself.
pub(crate) fn check_put(request: &PutRequest) -> Result<()> {
    if request.key.is_empty() {
        Err(Error::EmptyKey)
    } else if request.ignore_value && !request.value.is_empty() {
        Err(Error::ValueProvided)
    } else if request.ignore_lease && request.lease != 0 {
        Err(Error::LeaseProvided)
    } else {
        Ok(())
    }
}

/// Refuses a transaction that is too large, malformed or touches a key twice.
pub(crate) fn check_txn(request: &TxnRequest) -> Result<()> {
    check_ops(request, MAX_OPS)?;
    touched(&request.success)?;
    touched(&request.failure)?;
    Ok(())
}

fn check_ops(request: &TxnRequest, budget: usize) -> Result<()> {
    let ops = request.compare.len().max(request.success.len()).max(request.failure.len());
    let left = budget.checked_sub(ops).ok_or(Error::TooManyOps)?;
    if request.compare.iter().any(|c| c.key.is_empty()) {
        return Err(Error::EmptyKey);
    }
    request.success.iter().chain(&request.failure).try_for_each(|op| match &op.request {
        Some(Request::RequestRange(r)) => check_range(r),
        Some(Request::RequestPut(p)) => check_put(p),
        Some(Request::RequestDeleteRange(d)) if d.key.is_empty() => Err(Error::EmptyKey),
        Some(Request::RequestDeleteRange(_)) => Ok(()),
        Some(Request::RequestTxn(t)) => check_ops(t, left),
        None => Err(Error::KeyNotFound),
    })
}

/// Whether a transaction writes nothing on any path. A nested one counts as writing, as in etcd.
pub(crate) fn is_read_only(request: &TxnRequest) -> bool {
    let reads = |op: &RequestOp| matches!(op.request, Some(Request::RequestRange(_)));
    request.success.iter().chain(&request.failure).all(reads)
}

/// Whether a transaction may put something, on any path.
pub(crate) fn puts_something(request: &TxnRequest) -> bool {
    request.success.iter().chain(&request.failure).any(|op| match &op.request {
        Some(Request::RequestPut(_)) => true,
        Some(Request::RequestTxn(nested)) => puts_something(nested),
        _ => false,
    })
}

/// Keys put and ranges deleted by one branch and everything below it.
#[derive(Default)]
struct Touched {
    puts: HashSet<Bytes>,
    deletes: Vec<Bounds>,
}

impl Touched {
    fn add_put(&mut self, key: &Bytes) -> Result<()> {
        let fresh = !self.deletes.iter().any(|d| d.contains(key)) && self.puts.insert(key.clone());
        if fresh { Ok(()) } else { Err(Error::DuplicateKey) }
    }
}

/// Finds a key that is put twice or put and deleted on one path. An open-ended delete is not seen here, as in etcd.
fn touched(ops: &[RequestOp]) -> Result<Touched> {
    let mut here = Touched::default();
    for op in ops {
        if let Some(Request::RequestDeleteRange(d)) = &op.request
            && d.range_end.as_ref() != [0]
        {
            here.deletes.push(Bounds::new(d.key.clone(), &d.range_end));
        }
    }
    for op in ops {
        if let Some(Request::RequestTxn(t)) = &op.request {
            let (then, otherwise) = (touched(&t.success)?, touched(&t.failure)?);
            for key in &then.puts {
                here.add_put(key)?;
            }
            // Only one of the two branches runs, so they may share keys.
            for key in otherwise.puts.difference(&then.puts) {
                here.add_put(key)?;
            }
            for key in otherwise.puts.intersection(&then.puts) {
                if here.deletes.iter().any(|d| d.contains(key)) {
                    return Err(Error::DuplicateKey);
                }
            }
            here.deletes.extend(then.deletes.into_iter().chain(otherwise.deletes));
        }
    }
    for op in ops {
        if let Some(Request::RequestPut(p)) = &op.request {
            here.add_put(&p.key)?;
        }
    }
    Ok(here)
}

// === applying ===

/// A transaction whose branches are chosen: by the state before its first write.
struct Plan<'a> {
    succeeded: bool,
    ops: Vec<Step<'a>>,
}

enum Step<'a> {
    Range(&'a RangeRequest),
    Put(&'a PutRequest),
    Delete(&'a DeleteRangeRequest),
    Nested(Plan<'a>),
}

impl Plan<'_> {
    fn has_range(&self) -> bool {
        self.ops.iter().any(|step| match step {
            Step::Range(_) => true,
            Step::Nested(nested) => nested.has_range(),
            Step::Put(_) | Step::Delete(_) => false,
        })
    }
}

fn header(revision: i64) -> Option<ResponseHeader> {
    Some(ResponseHeader { revision, ..Default::default() })
}

impl State {
    /// Applies a transaction: its answer, and what changed if something did. On an error nothing changed.
    pub(crate) fn txn(&mut self, request: &TxnRequest) -> Result<(TxnResponse, Option<Arc<[Change]>>)> {
        let plan = self.plan(request);
        self.check_plan(&plan)?;
        // Only a range can still fail, and then takes back what came before it.
        let before = plan.has_range().then(|| self.clone());
        let mut txn = WriteTxn::new(self);
        match txn.run(&plan) {
            Ok(response) => Ok((response, txn.finish())),
            Err(error) => {
                if let Some(before) = before {
                    *self = before;
                }
                Err(error)
            }
        }
    }

    /// Applies a single put.
    pub(crate) fn put(&mut self, request: &PutRequest) -> Result<(PutResponse, Option<Arc<[Change]>>)> {
        self.check_put(request)?;
        let mut txn = WriteTxn::new(self);
        let response = txn.run_put(request);
        Ok((response, txn.finish()))
    }

    /// Applies a single delete.
    pub(crate) fn delete_range(
        &mut self,
        request: &DeleteRangeRequest,
    ) -> (DeleteRangeResponse, Option<Arc<[Change]>>) {
        let mut txn = WriteTxn::new(self);
        let response = txn.run_delete(request);
        (response, txn.finish())
    }

    /// Removes a lease and every key on it, in one revision.
    pub(crate) fn revoke(&mut self, id: i64) -> Result<Option<Arc<[Change]>>> {
        let lease = self.leases.remove(&id).ok_or(Error::LeaseNotFound)?;
        let mut txn = WriteTxn::new(self);
        for key in &lease.keys {
            if let Some(version) = txn.state().get(key).cloned() {
                txn.delete_one(&version, None);
            }
        }
        Ok(txn.finish())
    }

    fn plan<'a>(&self, request: &'a TxnRequest) -> Plan<'a> {
        let succeeded = request.compare.iter().all(|c| self.holds(c));
        let ops = if succeeded { &request.success } else { &request.failure };
        let step = |op: &'a RequestOp| match op.request.as_ref()? {
            Request::RequestRange(r) => Some(Step::Range(r)),
            Request::RequestPut(p) => Some(Step::Put(p)),
            Request::RequestDeleteRange(d) => Some(Step::Delete(d)),
            Request::RequestTxn(t) => Some(Step::Nested(self.plan(t))),
        };
        Plan { succeeded, ops: ops.iter().filter_map(step).collect() }
    }

    fn check_plan(&self, plan: &Plan<'_>) -> Result<()> {
        plan.ops.iter().try_for_each(|step| match step {
            Step::Range(r) if r.revision > self.revision => Err(Error::FutureRevision),
            Step::Range(r) if r.revision != 0 && r.revision < self.compacted => Err(Error::Compacted),
            Step::Put(p) => self.check_put(p),
            Step::Nested(nested) => self.check_plan(nested),
            Step::Range(_) | Step::Delete(_) => Ok(()),
        })
    }

    fn check_put(&self, request: &PutRequest) -> Result<()> {
        if request.lease != 0 && !self.leases.contains_key(&request.lease) {
            return Err(Error::LeaseNotFound);
        }
        let needs_key = request.ignore_value || request.ignore_lease;
        if needs_key && self.get(&request.key).is_none() { Err(Error::KeyNotFound) } else { Ok(()) }
    }

    fn holds(&self, compare: &Compare) -> bool {
        let bounds = Bounds::new(compare.key.clone(), &compare.range_end);
        let (mut any, mut all) = (false, true);
        self.each_live(&bounds, &mut |version| {
            any = true;
            all &= holds_for(compare, Some(version));
        });
        if any {
            return all;
        }
        // There is no way to say "no value", so a missing key never has the value asked for.
        compare.target() != CompareTarget::Value && holds_for(compare, None)
    }
}

fn holds_for(compare: &Compare, version: Option<&Version>) -> bool {
    let number = |of: fn(&Version) -> i64| version.map_or(0, of);
    let wanted = match &compare.target_union {
        Some(
            TargetUnion::Version(n)
            | TargetUnion::CreateRevision(n)
            | TargetUnion::ModRevision(n)
            | TargetUnion::Lease(n),
        ) => *n,
        Some(TargetUnion::Value(_)) | None => 0,
    };
    // A union that is not the target's counts as its zero.
    let of = |fits: bool| if fits { wanted } else { 0 };
    let union = compare.target_union.as_ref();
    let Ok(target) = CompareTarget::try_from(compare.target) else { return holds_unknown(compare) };
    let order = match target {
        CompareTarget::Version => number(|v| v.version).cmp(&of(matches!(union, Some(TargetUnion::Version(_))))),
        CompareTarget::Create => {
            number(|v| v.create_revision).cmp(&of(matches!(union, Some(TargetUnion::CreateRevision(_)))))
        }
        CompareTarget::Mod => number(|v| v.main).cmp(&of(matches!(union, Some(TargetUnion::ModRevision(_))))),
        CompareTarget::Lease => number(|v| v.lease).cmp(&of(matches!(union, Some(TargetUnion::Lease(_))))),
        CompareTarget::Value => {
            let wanted: &[u8] = if let Some(TargetUnion::Value(value)) = union { value } else { b"" };
            version.map_or(&b""[..], |v| &v.value).cmp(wanted)
        }
    };
    match CompareResult::try_from(compare.result) {
        Ok(CompareResult::Equal) => order.is_eq(),
        Ok(CompareResult::NotEqual) => order.is_ne(),
        Ok(CompareResult::Greater) => order.is_gt(),
        Ok(CompareResult::Less) => order.is_lt(),
        Err(_) => true,
    }
}

/// A target that is not known compares as equal.
fn holds_unknown(compare: &Compare) -> bool {
    !matches!(
        CompareResult::try_from(compare.result),
        Ok(CompareResult::NotEqual | CompareResult::Greater | CompareResult::Less)
    )
}

impl WriteTxn<'_> {
    fn run(&mut self, plan: &Plan<'_>) -> Result<TxnResponse> {
        let mut responses = Vec::with_capacity(plan.ops.len());
        for step in &plan.ops {
            let response = match step {
                Step::Range(r) => Response::ResponseRange(self.state().range(r, Some(self.revision()))?),
                Step::Put(p) => Response::ResponsePut(self.run_put(p)),
                Step::Delete(d) => Response::ResponseDeleteRange(self.run_delete(d)),
                // A nested answer has an empty header.
                Step::Nested(nested) => Response::ResponseTxn(TxnResponse { header: header(0), ..self.run(nested)? }),
            };
            responses.push(ResponseOp { response: Some(response) });
        }
        Ok(TxnResponse { header: header(self.revision()), succeeded: plan.succeeded, responses })
    }

    fn run_put(&mut self, request: &PutRequest) -> PutResponse {
        let before = self.state().get(&request.key).cloned();
        let kept = before.as_ref();
        let value = if request.ignore_value {
            kept.map_or_else(Bytes::new, |v| v.value.clone())
        } else {
            request.value.clone()
        };
        let lease = if request.ignore_lease { kept.map_or(0, |v| v.lease) } else { request.lease };
        self.put(request.key.clone(), value, lease, request.cause.clone());
        let prev_kv = before.filter(|_| request.prev_kv).map(|v| v.to_key_value());
        PutResponse { header: header(self.revision()), prev_kv }
    }

    fn run_delete(&mut self, request: &DeleteRangeRequest) -> DeleteRangeResponse {
        let bounds = Bounds::new(request.key.clone(), &request.range_end);
        let mut prev_kvs = Vec::new();
        if request.prev_kv {
            self.state().each_live(&bounds, &mut |version| prev_kvs.push(version.to_key_value()));
        }
        let deleted = self.delete(&bounds, request.cause.as_ref());
        DeleteRangeResponse { header: header(self.revision()), deleted, prev_kvs }
    }
}
