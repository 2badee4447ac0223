//! The folder of snapshot files. Only whole, durable files have the ending `.snap`; the newest one counts.
//!
//! One that is damaged can be done without where the log still holds what it stood for (see [`super::wal`]). It stays
//! where it is until a new one takes its place, so that each start before that finds the same; then it is kept as
//! `.snap.broken`, which nothing reads any more.
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use openraft::Snapshot;
use parking_lot::Mutex;
use trireme_proto::raft::v1 as pb;

use super::types::{LogId, SnapshotMeta, TypeConfig, meta_from_proto};
use crate::data_dir::make_dir;
use crate::error::{Error, Result};
use crate::mvcc::{SnapshotReader, State};

/// A snapshot that cannot be read.
#[derive(Debug, Clone)]
pub(crate) struct Damaged {
    /// The file.
    pub path: PathBuf,
    /// The last entry that it held, by its name, and the term of that entry.
    pub last: (u64, u64),
    /// What is wrong with it.
    pub error: Error,
}

impl Damaged {
    /// It cannot be done without.
    pub(super) fn refused(&self, why: impl std::fmt::Display) -> Error {
        let what = "and cannot be made again from the log";
        Error::data(&self.path, format!("{}, {what}: {why}; restore the data directory from a copy", self.error))
    }
}

/// The folder. Clones share it.
#[derive(Clone)]
pub(crate) struct SnapshotStore {
    dir: PathBuf,
    cluster_id: u64,
    scratch: Arc<AtomicU64>,
    damaged: Arc<Mutex<Vec<PathBuf>>>,
}

impl SnapshotStore {
    pub(super) fn open(dir: &Path, cluster_id: u64) -> Result<Self> {
        make_dir(dir).map_err(|e| Error::file(dir, e))?;
        for entry in std::fs::read_dir(dir)? {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == "tmp") {
                std::fs::remove_file(path)?;
            }
        }
        Ok(Self { dir: dir.into(), cluster_id, scratch: Arc::default(), damaged: Arc::default() })
    }

    pub(super) fn cluster_id(&self) -> u64 {
        self.cluster_id
    }

    pub(super) fn scratch(&self) -> PathBuf {
        self.dir.join(format!("{}.tmp", self.scratch.fetch_add(1, Ordering::Relaxed)))
    }

    /// Names sort by what they hold.
    pub(super) fn name(&self, last: Option<LogId>) -> String {
        let (index, term) = last.map_or((0, 0), |id| (id.index, id.leader_id.term));
        format!("{index:016x}-{term:016x}")
    }

    /// The snapshots, the newest first.
    fn kept(&self) -> Result<Vec<PathBuf>> {
        let mut kept = Vec::new();
        for entry in std::fs::read_dir(&self.dir)? {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == "snap") {
                kept.push(path);
            }
        }
        kept.sort_unstable_by(|a, b| b.cmp(a));
        Ok(kept)
    }

    /// The newest one that can be used.
    pub(super) fn newest(&self) -> Result<Option<PathBuf>> {
        let kept = self.kept()?;
        let damaged = self.damaged.lock();
        Ok(kept.into_iter().find(|path| !damaged.contains(path)))
    }

    /// The state of the newest sound snapshot, or an empty one, and the damaged ones that are newer. A disk that fails,
    /// another cluster's or a later version's file are no damage: they are refused.
    pub(super) fn load_newest(&self) -> Result<(State, SnapshotMeta, Vec<Damaged>)> {
        let mut damaged = Vec::new();
        for path in self.kept()? {
            match self.load(&path) {
                Ok((state, head)) => return Ok((state, head.meta.map(meta_from_proto).unwrap_or_default(), damaged)),
                Err(error @ (Error::Corrupt(_) | Error::Decode { .. })) => {
                    let last = last_of(&path).ok_or_else(|| error.clone().of(&path))?;
                    self.damaged.lock().push(path.clone());
                    damaged.push(Damaged { path, last, error });
                }
                Err(error) => return Err(error.of(&path)),
            }
        }
        Ok((State::default(), SnapshotMeta::default(), damaged))
    }

    /// Makes a durable scratch file the newest snapshot and removes older ones.
    pub(super) fn keep(&self, scratch: &Path, name: &str) -> Result<PathBuf> {
        let path = self.dir.join(format!("{name}.snap"));
        for damaged in self.damaged.lock().iter() {
            // A second name, as the new one may have the first.
            let aside = damaged.with_extension("snap.broken");
            if let Err(error) = std::fs::hard_link(damaged, &aside) {
                tracing::warn!(file = %damaged.display(), %error, "a damaged snapshot is not kept");
            }
        }
        std::fs::rename(scratch, &path)?;
        File::open(&self.dir)?.sync_all()?;
        self.damaged.lock().clear();
        for old in self.kept()? {
            if old < path {
                std::fs::remove_file(old)?;
            }
        }
        Ok(path)
    }

    /// Reads a file.
    pub(super) fn load(&self, path: &Path) -> Result<(State, pb::SnapshotHead)> {
        let reader = SnapshotReader::open(BufReader::with_capacity(1 << 20, File::open(path)?))?;
        if reader.head().cluster_id != self.cluster_id {
            return Err(Error::ClusterMismatch);
        }
        reader.read()
    }

    pub(super) fn open_kept(&self, path: &Path) -> Result<Snapshot<TypeConfig>> {
        let open = || {
            let head = SnapshotReader::open(BufReader::new(File::open(path)?))?;
            let meta = head.head().meta.clone().map(meta_from_proto).unwrap_or_default();
            Ok(Snapshot { meta, snapshot: Box::new(tokio::fs::File::from_std(File::open(path)?)) })
        };
        open().map_err(|e: Error| e.of(path))
    }
}

/// The last entry that a snapshot holds, by its name.
fn last_of(path: &Path) -> Option<(u64, u64)> {
    let (index, term) = path.file_stem()?.to_str()?.split_once('-')?;
    Some((u64::from_str_radix(index, 16).ok()?, u64::from_str_radix(term, 16).ok()?))
}
