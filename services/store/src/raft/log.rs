//! The Raft log: what is not in a snapshot yet lies in memory for reading, and in the [`wal`](super::wal) for good.
//!
//! One thread owns the files. It takes every write that waits, makes one frame of them and one fsync, then tells the
//! writers: this is the group commit.
use std::fmt::Debug;
use std::ops::{Bound, RangeBounds};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use openraft::storage::{LogFlushed, LogState, RaftLogStorage};
use openraft::{RaftLogReader, StorageIOError};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use trireme_proto::raft::v1 as pb;

use super::snapshot_store::Damaged;
use super::types::{
    Entry, LogId, StorageError, TypeConfig, Vote, entry_size, entry_to_proto, log_id_to_proto, vote_to_proto,
};
use super::wal::{Contents, Wal};
use crate::error::{Error, Result};

/// Bytes of entries that go to a member in one message, about.
const READ_BYTES: usize = 512 << 10;

enum Write {
    Append(Vec<pb::Entry>, LogFlushed<TypeConfig>),
    Vote(pb::Vote, oneshot::Sender<Result<()>>),
    Truncate(pb::LogId, oneshot::Sender<Result<()>>),
    Purge(pb::LogId, oneshot::Sender<Result<()>>),
    Committed(pb::LogId),
}

/// A handle to the log.
#[derive(Clone)]
pub(crate) struct Log {
    contents: Arc<Mutex<Contents>>,
    bytes: Arc<AtomicUsize>,
    writes: mpsc::Sender<Write>,
}

impl Log {
    /// Opens the log of a folder and starts its writer. The newest snapshot goes up to `snapshot`; for those that are
    /// damaged the log has to stand in.
    pub(crate) fn open(dir: &Path, snapshot: Option<LogId>, damaged: &[Damaged]) -> Result<Self> {
        let (wal, contents) = Wal::open(dir, snapshot, damaged)?;
        let bytes = contents.entries.iter().map(entry_size).sum();
        let (writes, queue) = mpsc::channel();
        std::thread::Builder::new().name("store-wal".into()).spawn(move || write_all(wal, &queue))?;
        Ok(Self { contents: Arc::new(Mutex::new(contents)), bytes: Arc::new(AtomicUsize::new(bytes)), writes })
    }

    /// Bytes of the entries that are kept.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The index of the last entry that is known to be on a majority.
    pub(crate) fn committed(&self) -> u64 {
        self.contents.lock().committed.map_or(0, |id| id.index)
    }

    /// The index of the last entry.
    pub(crate) fn last_index(&self) -> u64 {
        self.contents.lock().last().map_or(0, |id| id.index)
    }

    /// Bytes and number of the entries after this one.
    pub(crate) fn size_after(&self, index: u64) -> (usize, usize) {
        let contents = self.contents.lock();
        let after = contents.entries.iter().rev().take_while(|e| e.log_id.index > index);
        after.fold((0, 0), |(bytes, count), entry| (bytes + entry_size(entry), count + 1))
    }

    /// The last entry that need not be kept so that the newest ones of these bytes and this number are.
    pub(crate) fn purgeable(&self, bytes: usize, count: usize) -> Option<u64> {
        let contents = self.contents.lock();
        let (mut kept_bytes, mut kept) = (0, 0);
        let mut older = contents.entries.iter().rev().skip_while(|entry| {
            kept_bytes += entry_size(entry);
            kept += 1;
            kept_bytes <= bytes && kept <= count
        });
        older.next().map(|entry| entry.log_id.index)
    }

    fn send(&self, write: Write) -> Result<()> {
        self.writes.send(write).map_err(|_| Error::Ended("the log's writer has ended".into()))
    }

    async fn write(&self, make: impl FnOnce(oneshot::Sender<Result<()>>) -> Write) -> Result<()> {
        let (done, written) = oneshot::channel();
        self.send(make(done))?;
        written.await.map_err(|_| Error::Ended("the log's writer has ended".into()))?
    }

    fn recount(&self, contents: &Contents) {
        self.bytes.store(contents.entries.iter().map(entry_size).sum(), Ordering::Relaxed);
    }
}

/// The writer's thread: ends when the last handle is gone, or for good at the first failed write: after a failed fsync
/// nobody knows what the disk holds.
fn write_all(mut wal: Wal, queue: &mpsc::Receiver<Write>) {
    while let Ok(first) = queue.recv() {
        let (mut frame, mut flushed, mut done) = (pb::LogFrame::default(), Vec::new(), Vec::new());
        let mut next = Some(first);
        let mut result = Ok(());
        let mut only_committed = true;
        while let Some(write) = next {
            only_committed &= matches!(write, Write::Committed(_));
            match write {
                Write::Append(entries, callback) => {
                    frame.entries.extend(entries);
                    flushed.push(callback);
                }
                Write::Vote(vote, sender) => {
                    frame.vote = Some(vote);
                    done.push(sender);
                }
                Write::Committed(id) => frame.committed = Some(id),
                Write::Purge(id, sender) => {
                    frame.purged = Some(id);
                    done.push(sender);
                }
                Write::Truncate(id, sender) => {
                    // In a frame a truncation comes before the entries.
                    if !frame.entries.is_empty() {
                        result = result.and_then(|()| wal.write(&mut std::mem::take(&mut frame)));
                    }
                    frame.truncate = Some(id);
                    done.push(sender);
                }
            }
            next = queue.try_recv().ok();
        }
        // How far commits got is only a hint for the next start: it goes with the next real write.
        if only_committed {
            wal.note_committed(frame.committed);
            continue;
        }
        let began = Instant::now();
        result = result.and_then(|()| wal.write(&mut frame));
        metrics::histogram!("etcd_disk_wal_fsync_duration_seconds").record(began.elapsed().as_secs_f64());
        for callback in flushed {
            callback.log_io_completed(result.clone().map_err(std::io::Error::other));
        }
        for sender in done {
            let _ = sender.send(result.clone());
        }
        if let Err(error) = result {
            tracing::error!(%error, "the log cannot be written: this member stops");
            return;
        }
    }
}

fn failed(error: Error) -> StorageError {
    StorageIOError::write_logs(openraft::AnyError::new(&error)).into()
}

impl RaftLogReader<TypeConfig> for Log {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + Send>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, StorageError> {
        let start = match range.start_bound() {
            Bound::Included(i) => *i,
            Bound::Excluded(i) => i + 1,
            Bound::Unbounded => 0,
        };
        let contents = self.contents.lock();
        let first = contents.entries.front().map_or(0, |e| e.log_id.index);
        let skip = usize::try_from(start.saturating_sub(first)).unwrap_or(usize::MAX).min(contents.entries.len());
        let from = contents.entries.range(skip..);
        Ok(from.take_while(|e| range.contains(&e.log_id.index)).cloned().collect())
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry>, StorageError> {
        let mut entries = self.try_get_log_entries(start..end).await?;
        let mut bytes = 0;
        let fits = entries.iter().take_while(|e| {
            bytes += entry_size(e);
            bytes <= READ_BYTES
        });
        let fits = fits.count().max(1);
        entries.truncate(fits);
        Ok(entries)
    }
}

impl RaftLogStorage<TypeConfig> for Log {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, StorageError> {
        let contents = self.contents.lock();
        Ok(LogState { last_purged_log_id: contents.purged, last_log_id: contents.last() })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), StorageError> {
        self.write(|done| Write::Vote(vote_to_proto(vote), done)).await.map_err(failed)?;
        self.contents.lock().vote = Some(*vote);
        Ok(())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, StorageError> {
        Ok(self.contents.lock().vote)
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), StorageError> {
        if let Some(id) = committed {
            self.send(Write::Committed(log_id_to_proto(&id))).map_err(failed)?;
        }
        self.contents.lock().committed = committed;
        Ok(())
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, StorageError> {
        Ok(self.contents.lock().committed)
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<TypeConfig>) -> Result<(), StorageError>
    where
        I: IntoIterator<Item = Entry> + Send,
        I::IntoIter: Send,
    {
        let mut encoded = Vec::new();
        {
            let mut contents = self.contents.lock();
            for entry in entries {
                encoded.push(entry_to_proto(&entry));
                self.bytes.fetch_add(entry_size(&entry), Ordering::Relaxed);
                contents.entries.push_back(entry);
            }
        }
        self.send(Write::Append(encoded, callback)).map_err(failed)
    }

    async fn truncate(&mut self, log_id: LogId) -> Result<(), StorageError> {
        {
            let mut contents = self.contents.lock();
            contents.truncate(log_id.index);
            self.recount(&contents);
        }
        self.write(|done| Write::Truncate(log_id_to_proto(&log_id), done)).await.map_err(failed)
    }

    async fn purge(&mut self, log_id: LogId) -> Result<(), StorageError> {
        {
            let mut contents = self.contents.lock();
            contents.purge(log_id);
            self.recount(&contents);
        }
        self.write(|done| Write::Purge(log_id_to_proto(&log_id), done)).await.map_err(failed)
    }
}
