//! The state against a model that keeps every revision whole.
use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;
use trireme_proto::etcdserverpb::request_op::Request;
use trireme_proto::etcdserverpb::{DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest};
use trireme_proto::raft::v1::SnapshotMeta;
use trireme_proto::store::v1::Cause;

use super::*;

fn put(key: &str, value: &str) -> PutRequest {
    PutRequest { key: key.to_owned().into(), value: value.to_owned().into(), ..Default::default() }
}

fn all() -> RangeRequest {
    RangeRequest { key: Bytes::from_static(&[0]), range_end: Bytes::from_static(&[0]), ..Default::default() }
}

fn reload(state: &State) -> State {
    let mut file = Vec::new();
    let length = write_snapshot(state, SnapshotMeta::default(), 7, &mut file).unwrap();
    assert_eq!(length, file.len() as u64);
    SnapshotReader::open(file.as_slice()).unwrap().read().unwrap().0
}

#[test]
fn a_version_keeps_its_cause_through_snapshots() {
    let mut state = State::default();
    let cause = Some(Cause { cause: "00-aa-bb-01".into(), cause_unix_nanos: 5, ..Default::default() });
    state.put(&PutRequest { cause: cause.clone(), ..put("a", "1") }).unwrap();
    let delete = DeleteRangeRequest { key: "a".into(), cause: cause.clone(), ..Default::default() };
    let (_, changes) = state.delete_range(&delete);
    assert_eq!(changes.unwrap()[0].to_event(true).kv.unwrap().cause, cause);
    for state in [state.clone(), reload(&state)] {
        let at = RangeRequest { revision: 2, ..all() };
        assert_eq!(state.range(&at, None).unwrap().kvs[0].cause, cause);
        let events: Vec<_> = state.changes_from(2).flat_map(|(_, c)| c.iter().map(|c| c.to_event(true))).collect();
        assert_eq!(events.len(), 2);
        assert_eq!(events[1].kv.as_ref().unwrap().cause, cause);
        assert_eq!(events[1].prev_kv.as_ref().unwrap().mod_revision, 2);
    }
}

#[test]
fn a_damaged_snapshot_is_refused() {
    let mut state = State::default();
    state.put(&put("a", "1")).unwrap();
    let mut file = Vec::new();
    write_snapshot(&state, SnapshotMeta::default(), 7, &mut file).unwrap();
    for at in 0..file.len() {
        let mut damaged = file.clone();
        damaged[at] ^= 0x40;
        let read = SnapshotReader::open(damaged.as_slice()).and_then(SnapshotReader::read);
        assert!(read.is_err(), "byte {at}");
        assert!(SnapshotReader::open(&file[..at]).and_then(SnapshotReader::read).is_err(), "cut at {at}");
    }
}

#[test]
fn a_refused_transaction_changes_nothing() {
    let mut state = State::default();
    let future = RangeRequest { revision: 3, ..all() };
    let ops = [Request::RequestPut(put("a", "1")), Request::RequestRange(future)];
    let success = ops.into_iter().map(|request| RequestOp { request: Some(request) }).collect();
    let refused = state.txn(&TxnRequest { success, ..Default::default() });
    assert_eq!(refused.err(), Some(crate::Error::FutureRevision));
    assert_eq!((state.revision, state.keys(), state.versions()), (1, 0, 0));
}

#[test]
fn a_revoked_lease_takes_its_keys_in_one_revision() {
    let mut state = State::default();
    state.leases.insert(9, Lease { ttl: 10, granted: 1, keys: OrdSet::new() });
    for key in ["b", "a", "c"] {
        state.put(&PutRequest { lease: 9, ..put(key, "1") }).unwrap();
    }
    state.put(&put("c", "free")).unwrap();
    assert_eq!(reload(&state).leases, state.leases);
    let changes = state.revoke(9).unwrap().unwrap();
    let keys: Vec<_> = changes.iter().map(|c| c.version.key.clone()).collect();
    assert_eq!(keys, ["a", "b"]);
    assert_eq!((state.revision, state.keys()), (6, 1));
}

#[derive(Debug, Clone)]
enum Step {
    Put(u8, u8),
    Delete(u8, u8),
    Txn(Vec<(u8, u8)>),
    Compact(u8),
    Trim(u8),
    Reload,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..6u8, any::<u8>()).prop_map(|(k, v)| Step::Put(k, v)),
        3 => (0..6u8, 0..7u8).prop_map(|(a, b)| Step::Delete(a, b)),
        2 => prop::collection::vec((0..6u8, any::<u8>()), 1..4).prop_map(Step::Txn),
        1 => (0..8u8).prop_map(Step::Compact),
        1 => (1..4u8).prop_map(Step::Trim),
        1 => Just(Step::Reload),
    ];
    prop::collection::vec(step, 1..60)
}

type Whole = BTreeMap<String, (String, i64, i64, i64)>;

fn name(key: u8) -> String {
    format!("k{key}")
}

fn model_put(now: &mut Whole, key: u8, value: u8, revision: i64) {
    let (create, version) = now.get(&name(key)).map_or((revision, 1), |old| (old.1, old.3 + 1));
    now.insert(name(key), (value.to_string(), create, revision, version));
}

fn whole(state: &State, revision: i64) -> Whole {
    let found = state.range(&RangeRequest { revision, ..all() }, None).unwrap();
    let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    found
        .kvs
        .iter()
        .map(|kv| (text(&kv.key), (text(&kv.value), kv.create_revision, kv.mod_revision, kv.version)))
        .collect()
}

proptest! {
    #[test]
    fn every_readable_revision_is_what_it_was(steps in steps()) {
        let mut state = State::default();
        // What each revision looked like.
        let mut model: BTreeMap<i64, Whole> = BTreeMap::from([(1, Whole::new())]);
        for step in steps {
            let mut now = model[&state.revision].clone();
            let next = state.revision + 1;
            match step {
                Step::Put(key, value) => {
                    state.put(&put(&name(key), &value.to_string())).unwrap();
                    model_put(&mut now, key, value, next);
                }
                Step::Delete(from, to) => {
                    let range_end = name(to).into();
                    state.delete_range(&DeleteRangeRequest { key: name(from).into(), range_end, ..Default::default() });
                    now.retain(|key, _| !(*key >= name(from) && *key < name(to)));
                }
                Step::Txn(puts) => {
                    let op = |(key, value): &(u8, u8)| Request::RequestPut(put(&name(*key), &value.to_string()));
                    let success = puts.iter().map(|p| RequestOp { request: Some(op(p)) }).collect();
                    state.txn(&TxnRequest { success, ..Default::default() }).unwrap();
                    puts.iter().for_each(|(key, value)| model_put(&mut now, *key, *value, next));
                }
                Step::Compact(back) => { let _ = state.compact(state.revision - i64::from(back)); }
                Step::Trim(count) => state.trim(count.into()),
                Step::Reload => state = reload(&state),
            }
            model.insert(state.revision, now);
            for (revision, expected) in model.range(state.compacted.max(1)..) {
                prop_assert_eq!(&whole(&state, *revision), expected, "revision {}", revision);
            }
            let logged: Vec<_> = state.changes_from(0).map(|(revision, _)| revision).collect();
            prop_assert_eq!(logged.last().copied().unwrap_or(state.revision), state.revision);
            prop_assert!(logged.windows(2).all(|w| w[0] + 1 == w[1]));
            prop_assert!(logged.first().is_none_or(|first| *first <= state.compacted.max(2)));
            prop_assert_eq!(state.hash(0).unwrap(), reload(&state).hash(0).unwrap());
            let sizes = state.versions.values().map(|v| v.size()).sum::<usize>();
            prop_assert_eq!(sizes, state.size());
            prop_assert_eq!(state.live.values().map(|v| v.size()).sum::<usize>(), state.live_size());
        }
    }
}
