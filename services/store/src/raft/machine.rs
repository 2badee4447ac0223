//! The state machine: applies what is committed, publishes what came of it, writes and installs snapshots.
//!
//! The state lives in memory. On disk it is the newest snapshot and the log after it, so a start loads the one and
//! applies the other. Its owner is the library's apply task; everyone else sees [`View`]s and [`Applied`] revisions.
use std::io::{BufWriter, Seek};
use std::path::Path;
use std::sync::Arc;

use openraft::storage::RaftStateMachine;
use openraft::{AnyError, EntryPayload, RaftSnapshotBuilder, Snapshot, StorageIOError, StoredMembership};
use prost::Message;
use tokio::sync::{broadcast, watch};
use trireme_proto::raft::v1 as pb;

use super::execute;
use super::snapshot_store::{Damaged, SnapshotStore};
use super::types::{
    Batch, Entry, LogId, Member, Outcomes, Proposal, SnapshotMeta, StorageError, TypeConfig, meta_to_proto,
};
use crate::data_dir::create_own;
use crate::error::{Error, Result};
use crate::mvcc::{Change, State, write_snapshot};

/// Revisions that a consumer may fall behind before it has to read them from a view.
const RECENT_REVISIONS: usize = 4096;
/// Revisions whose superseded versions are dropped with each batch after a compaction.
const TRIM_STEP: usize = 2000;

/// The state after some entry of the log. It never changes.
#[derive(Debug, Clone, Default)]
pub(crate) struct View {
    /// The data.
    pub state: State,
    /// The last entry that is in it.
    pub applied: u64,
}

/// A revision as it is applied.
#[derive(Debug)]
pub(crate) struct Applied {
    /// The revision.
    pub revision: i64,
    /// What it changed, in the transaction's order.
    pub changes: Arc<[Change]>,
    /// The trace context of its application; empty if it is not traced.
    pub traceparent: Arc<str>,
}

/// Where the state machine's results are seen.
#[derive(Debug, Clone)]
pub(crate) struct Outlet {
    /// The newest view. A revision was sent to `recent` before a view shows it.
    pub views: watch::Receiver<Arc<View>>,
    /// Revisions as they come.
    pub recent: broadcast::Sender<Arc<Applied>>,
}

/// The state machine.
pub(crate) struct Machine {
    state: State,
    applied: Option<LogId>,
    membership: StoredMembership<u64, Member>,
    views: watch::Sender<Arc<View>>,
    recent: broadcast::Sender<Arc<Applied>>,
    store: SnapshotStore,
    damaged: Vec<Damaged>,
    /// Entries up to this one were in the log when it was opened: their spans were told long ago.
    told: u64,
}

impl Machine {
    /// Loads the newest sound snapshot of a folder. For damaged ones after it, which [`Machine::damaged`] tells, the log
    /// has to stand in.
    pub(crate) fn open(dir: &Path, cluster_id: u64) -> Result<(Self, Outlet)> {
        let store = SnapshotStore::open(dir, cluster_id)?;
        let (state, meta, damaged) = store.load_newest()?;
        let applied = meta.last_log_id;
        let (views, seen) = watch::channel(Arc::new(view_of(&state, applied)));
        let recent = broadcast::Sender::new(RECENT_REVISIONS);
        let outlet = Outlet { views: seen, recent: recent.clone() };
        let membership = meta.last_membership;
        Ok((Self { state, applied, membership, views, recent, store, damaged, told: 0 }, outlet))
    }

    /// The last entry that the state holds.
    pub(crate) fn applied(&self) -> Option<LogId> {
        self.applied
    }

    /// Snapshots of more than that which cannot be read, the newest first.
    pub(crate) fn damaged(&self) -> &[Damaged] {
        &self.damaged
    }

    /// The log ended here when it was opened: who did that was told before.
    pub(crate) fn told(self, told: u64) -> Self {
        Self { told, ..self }
    }

    fn apply_batch(&mut self, index: u64, batch: &Batch) -> Outcomes {
        Outcomes { each: batch.0.iter().map(|proposal| self.apply_one(index, proposal)).collect() }
    }

    fn apply_one(&mut self, index: u64, proposal: &Proposal) -> Result<pb::Reply> {
        let command = pb::Command::decode(proposal.command.clone());
        let command = command.map_err(Error::decode(format!("entry {index}")))?;
        let span = if index > self.told { crate::trace::apply(&proposal.traceparent) } else { tracing::Span::none() };
        let (reply, changes) = span.in_scope(|| execute::execute(&mut self.state, command, index))?;
        if let Some(changes) = changes {
            let applied = Applied { revision: self.state.revision, changes, traceparent: crate::trace::name_of(&span) };
            // Nobody listening is fine.
            let _ = self.recent.send(Arc::new(applied));
        }
        Ok(reply)
    }

    fn publish(&self) {
        self.views.send_replace(Arc::new(view_of(&self.state, self.applied)));
    }
}

fn view_of(state: &State, applied: Option<LogId>) -> View {
    View { state: state.clone(), applied: applied.map_or(0, |id| id.index) }
}

impl RaftStateMachine<TypeConfig> for Machine {
    type SnapshotBuilder = SnapshotBuilder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership<u64, Member>), StorageError> {
        Ok((self.applied, self.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Outcomes>, StorageError>
    where
        I: IntoIterator<Item = Entry> + Send,
        I::IntoIter: Send,
    {
        let mut all = Vec::new();
        for entry in entries {
            self.applied = Some(entry.log_id);
            all.push(match &entry.payload {
                EntryPayload::Blank => Outcomes::default(),
                EntryPayload::Normal(batch) => self.apply_batch(entry.log_id.index, batch),
                EntryPayload::Membership(membership) => {
                    self.membership = StoredMembership::new(Some(entry.log_id), membership.clone());
                    Outcomes::default()
                }
            });
        }
        self.state.trim(TRIM_STEP);
        self.publish();
        Ok(all)
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder {
        let meta = SnapshotMeta {
            last_log_id: self.applied,
            last_membership: self.membership.clone(),
            snapshot_id: self.store.name(self.applied),
        };
        SnapshotBuilder { state: self.state.clone(), meta, store: self.store.clone() }
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<tokio::fs::File>, StorageError> {
        // Without a name it is gone when nobody holds it any more, whatever happens.
        let path = self.store.scratch();
        let open = || {
            let file = create_own(&path)?;
            std::fs::remove_file(&path)?;
            Ok(file)
        };
        let file = open().map_err(|e: std::io::Error| snapshot_error(&e.into()))?;
        Ok(Box::new(tokio::fs::File::from_std(file)))
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        snapshot: Box<tokio::fs::File>,
    ) -> Result<(), StorageError> {
        let mut received = snapshot.into_std().await;
        let store = self.store.clone();
        let name = store.name(meta.last_log_id);
        let install = blocking(move || {
            let scratch = store.scratch();
            let mut file = create_own(&scratch)?;
            received.rewind()?;
            std::io::copy(&mut received, &mut file)?;
            file.sync_all()?;
            let (state, _) = store.load(&scratch).map_err(|e| e.of(&scratch))?;
            store.keep(&scratch, &name)?;
            Ok(state)
        });
        self.state = install.await.map_err(|e| snapshot_error(&e))?;
        self.applied = meta.last_log_id;
        self.membership = meta.last_membership.clone();
        self.publish();
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<TypeConfig>>, StorageError> {
        let store = self.store.clone();
        let newest = blocking(move || store.newest()?.map(|path| store.open_kept(&path)).transpose()).await;
        newest.map_err(|e| snapshot_error(&e))
    }
}

fn snapshot_error(error: &Error) -> StorageError {
    StorageIOError::read_snapshot(None, AnyError::new(error)).into()
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await?
}

/// Writes a snapshot of one moment while the machine goes on.
pub(crate) struct SnapshotBuilder {
    state: State,
    meta: SnapshotMeta,
    store: SnapshotStore,
}

impl RaftSnapshotBuilder<TypeConfig> for SnapshotBuilder {
    async fn build_snapshot(&mut self) -> Result<Snapshot<TypeConfig>, StorageError> {
        let (state, meta, store) = (self.state.clone(), self.meta.clone(), self.store.clone());
        let built = blocking(move || {
            let scratch = store.scratch();
            let file = create_own(&scratch)?;
            let began = std::time::Instant::now();
            let bytes = write_snapshot(&state, meta_to_proto(&meta), store.cluster_id(), BufWriter::new(&file))?;
            file.sync_all()?;
            let path = store.keep(&scratch, &meta.snapshot_id)?;
            metrics::histogram!("etcd_debugging_snap_save_total_duration_seconds")
                .record(began.elapsed().as_secs_f64());
            tracing::info!(bytes, revision = state.revision, "wrote a snapshot");
            store.open_kept(&path)
        });
        built.await.map_err(|e| snapshot_error(&e))
    }
}
