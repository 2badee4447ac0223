//! One command applied to the state.
use std::sync::Arc;

use imbl::OrdSet;
use trireme_proto::etcdserverpb::alarm_request::AlarmAction;
use trireme_proto::etcdserverpb::{
    AlarmMember, AlarmRequest, AlarmResponse, AlarmType, LeaseGrantRequest, LeaseGrantResponse,
};
use trireme_proto::raft::v1 as pb;
use trireme_proto::raft::v1::command::Op;
use trireme_proto::raft::v1::reply::Answer;

use crate::error::{Error, Result};
use crate::mvcc::{self, Change, Lease, State};

type Changes = Option<Arc<[Change]>>;

/// Applies a command that stands at `index`. An error changes nothing, and is the same on every member.
pub(super) fn execute(state: &mut State, command: pb::Command, index: u64) -> Result<(pb::Reply, Changes)> {
    let op = command.op.ok_or_else(|| Error::Corrupt("a command without content".into()))?;
    check_alarms(state, &op)?;
    let (answer, changes) = match op {
        Op::Txn(txn) => {
            let (response, changes) = state.txn(&txn)?;
            (Some(Answer::Txn(response)), changes)
        }
        Op::Put(put) => {
            let (response, changes) = state.put(&put)?;
            (Some(Answer::Put(response)), changes)
        }
        Op::DeleteRange(delete) => {
            let (response, changes) = state.delete_range(&delete);
            (Some(Answer::DeleteRange(response)), changes)
        }
        Op::Compact(compact) => {
            state.compact(compact.revision)?;
            (None, None)
        }
        Op::LeaseGrant(grant) => (Some(Answer::LeaseGrant(grant_lease(state, &grant, index)?)), None),
        Op::LeaseRevoke(revoke) => {
            let same = |lease: &Lease| !revoke.expired || lease.granted == revoke.granted;
            if !state.leases.get(&revoke.id).is_some_and(same) {
                return Err(Error::LeaseNotFound);
            }
            (None, state.revoke(revoke.id)?)
        }
        Op::Alarm(alarm) => (Some(Answer::Alarm(set_alarm(state, &alarm))), None),
        Op::Founding(founding) => {
            // Two leaders may have proposed one; the first counts.
            if state.incarnation.is_empty() {
                state.incarnation = founding.incarnation.into();
            }
            (None, None)
        }
    };
    Ok((pb::Reply { error: 0, revision: state.revision, answer }, changes))
}

fn check_alarms(state: &State, op: &Op) -> Result<()> {
    let raised = |kind: AlarmType| state.alarms.iter().any(|(_, k)| *k == kind as i32);
    if state.alarms.is_empty() || matches!(op, Op::Alarm(_)) {
        return Ok(());
    }
    if raised(AlarmType::Corrupt) {
        return Err(Error::CorruptCluster);
    }
    let grows = match op {
        Op::Put(_) | Op::LeaseGrant(_) => true,
        Op::Txn(txn) => mvcc::puts_something(txn),
        _ => false,
    };
    if grows && raised(AlarmType::Nospace) { Err(Error::NoSpace) } else { Ok(()) }
}

fn grant_lease(state: &mut State, grant: &LeaseGrantRequest, index: u64) -> Result<LeaseGrantResponse> {
    if state.leases.contains_key(&grant.id) {
        return Err(Error::LeaseExists);
    }
    state.leases.insert(grant.id, Lease { ttl: grant.ttl, granted: index, keys: OrdSet::new() });
    Ok(LeaseGrantResponse { header: None, id: grant.id, ttl: grant.ttl, error: String::new() })
}

fn set_alarm(state: &mut State, request: &AlarmRequest) -> AlarmResponse {
    let alarm = (request.member_id, request.alarm);
    let shown = match request.action() {
        AlarmAction::Get => false,
        AlarmAction::Activate => {
            state.alarms.insert(alarm);
            true
        }
        AlarmAction::Deactivate => state.alarms.remove(&alarm).is_some(),
    };
    let alarms = shown.then_some(AlarmMember { member_id: alarm.0, alarm: alarm.1 });
    AlarmResponse { header: None, alarms: alarms.into_iter().collect() }
}
