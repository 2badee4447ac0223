//! The library's own tests of a storage, run on ours.
use std::sync::Arc;

use openraft::testing::{StoreBuilder, Suite};
use prost::Message;
use trireme_proto::etcdserverpb::PutRequest;
use trireme_proto::raft::v1 as pb;

use super::log::Log;
use super::machine::Machine;
use super::types::*;

struct Builder;

impl StoreBuilder<TypeConfig, Log, Machine, tempfile::TempDir> for Builder {
    async fn build(&self) -> Result<(tempfile::TempDir, Log, Machine), StorageError> {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::open(&dir.path().join("wal"), None, &[]).unwrap();
        let (machine, _) = Machine::open(&dir.path().join("snap"), 1).unwrap();
        Ok((dir, log, machine))
    }
}

#[test]
fn the_storage_passes_the_librarys_suite() {
    Suite::test_all(Builder).unwrap();
}

fn entry(index: u64, key: &str) -> Entry {
    let put = PutRequest { key: key.to_owned().into(), value: vec![b'x'; 100].into(), ..Default::default() };
    let command = pb::Command { op: Some(pb::command::Op::Put(put)) }.encode_to_vec().into();
    let proposal = Proposal { traceparent: "".into(), command };
    let log_id = LogId::new(openraft::CommittedLeaderId::new(1, 1), index);
    Entry { log_id, payload: openraft::EntryPayload::Normal(Batch(Arc::new([proposal]))) }
}

#[tokio::test]
async fn a_machine_begins_where_its_snapshot_ends() {
    use openraft::RaftSnapshotBuilder;
    use openraft::storage::RaftStateMachine;

    let dir = tempfile::tempdir().unwrap();
    let (mut machine, outlet) = Machine::open(dir.path(), 1).unwrap();
    machine.apply((1..=10).map(|i| entry(i, &format!("k{i}")))).await.unwrap();
    let snapshot = machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
    assert_eq!(snapshot.meta.last_log_id.map(|id| id.index), Some(10));
    let before = outlet.views.borrow().state.hash(0).unwrap();

    let (mut again, outlet) = Machine::open(dir.path(), 1).unwrap();
    assert_eq!(outlet.views.borrow().state.hash(0).unwrap(), before);
    assert_eq!(again.applied_state().await.unwrap().0.map(|id| id.index), Some(10));
    // Another cluster's snapshot is refused.
    assert!(Machine::open(dir.path(), 2).is_err());
}
