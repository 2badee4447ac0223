//! The state machine's data: every version of every key since the last compaction, leases and alarms.
//!
//! [`State`] is made of persistent maps, so a clone costs nothing and never changes: the one writer (the apply task)
//! works on its own copy and publishes clones, readers and the snapshot writer take one and are never in its way.
//! Applying is deterministic: the same commands in the same order make the same state on every member.
//!
//! Invariants: `live` holds exactly the newest versions that are no deletions; `versions` holds them too, and every
//! older one that a read at a revision from `compacted` on can see (and what [`State::trim`] did not reach yet);
//! `log` has an entry for each revision after `trimmed`, without holes.
mod compact;
mod hash;
mod read;
mod snapshot;
mod txn;
mod write;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use imbl::{OrdMap, OrdSet};
use trireme_proto::mvccpb::{Event, KeyValue, event::EventType};
use trireme_proto::store::v1::Cause;

pub(crate) use read::{Bounds, RangeQuery};
pub(crate) use snapshot::{SnapshotReader, write_snapshot};
pub(crate) use txn::{check_put, check_range, check_txn, is_read_only, puts_something};

/// The revision of a store that was never written.
pub(crate) const FIRST_REVISION: i64 = 1;

/// One version of a key: a value, or its deletion.
#[derive(Debug, PartialEq)]
pub(crate) struct Version {
    /// The key.
    pub key: Bytes,
    /// The revision of its transaction.
    pub main: i64,
    /// Its place in the transaction.
    pub sub: i64,
    /// The revision that created the key.
    pub create_revision: i64,
    /// Writes since the creation; 0 is a deletion.
    pub version: i64,
    /// The value.
    pub value: Bytes,
    /// The lease it hangs on, or 0.
    pub lease: i64,
    /// Why it was written.
    pub cause: Option<Box<Cause>>,
}

impl Version {
    /// Whether this is a deletion.
    pub(crate) fn is_deletion(&self) -> bool {
        self.version == 0
    }

    /// As the client sees it.
    pub(crate) fn to_key_value(&self) -> KeyValue {
        KeyValue {
            key: self.key.clone(),
            create_revision: self.create_revision,
            mod_revision: self.main,
            version: self.version,
            value: self.value.clone(),
            lease: self.lease,
            cause: self.cause.as_deref().cloned(),
        }
    }

    /// Bytes it takes, about.
    pub(crate) fn size(&self) -> usize {
        128 + self.key.len() + self.value.len()
    }
}

/// What one transaction did to one key.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    /// The new version.
    pub version: Arc<Version>,
    /// The key's version before the transaction.
    pub previous: Option<Arc<Version>>,
}

impl Change {
    /// As a watcher sees it.
    pub(crate) fn to_event(&self, previous: bool) -> Event {
        let kind = if self.version.is_deletion() { EventType::Delete } else { EventType::Put };
        Event {
            r#type: kind as i32,
            kv: Some(self.version.to_key_value()),
            prev_kv: self.previous.as_ref().filter(|_| previous).map(|p| p.to_key_value()),
        }
    }
}

/// A granted lease.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Lease {
    /// Seconds it lives without a renewal.
    pub ttl: i64,
    /// The raft index of its grant: tells it from an earlier lease of the same id.
    pub granted: u64,
    /// The keys that hang on it.
    pub keys: OrdSet<Bytes>,
}

type VersionKey = (Bytes, i64, i64);

/// All data, at one point of the log.
#[derive(Debug, Clone)]
pub(crate) struct State {
    /// The newest revision.
    pub revision: i64,
    /// Revisions below cannot be read any more; -1 before the first compaction.
    pub compacted: i64,
    /// A name of this history: another one means that revisions do not compare.
    pub incarnation: Arc<str>,
    /// Granted leases.
    pub leases: OrdMap<i64, Lease>,
    /// Raised alarms: member and kind.
    pub alarms: OrdSet<(u64, i32)>,
    live: OrdMap<Bytes, Arc<Version>>,
    versions: OrdMap<VersionKey, Arc<Version>>,
    log: OrdMap<i64, Arc<[Change]>>,
    trimmed: i64,
    size: usize,
    live_size: usize,
}

impl Default for State {
    fn default() -> Self {
        Self {
            revision: FIRST_REVISION,
            compacted: -1,
            incarnation: "".into(),
            leases: OrdMap::new(),
            alarms: OrdSet::new(),
            live: OrdMap::new(),
            versions: OrdMap::new(),
            log: OrdMap::new(),
            trimmed: FIRST_REVISION,
            size: 0,
            live_size: 0,
        }
    }
}

impl State {
    /// Bytes of all versions, about.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Bytes of the newest versions, about.
    pub(crate) fn live_size(&self) -> usize {
        self.live_size
    }

    /// Number of keys.
    pub(crate) fn keys(&self) -> usize {
        self.live.len()
    }

    /// Number of versions kept.
    pub(crate) fn versions(&self) -> usize {
        self.versions.len()
    }

    /// The changes of each revision from `revision` on, in order. Those below [`State::first_logged`] are gone.
    pub(crate) fn changes_from(&self, revision: i64) -> impl Iterator<Item = (i64, &Arc<[Change]>)> {
        self.log.range(revision..).map(|(revision, changes)| (*revision, changes))
    }

    /// The lowest revision whose changes are all there.
    pub(crate) fn first_logged(&self) -> i64 {
        self.trimmed.max(self.compacted)
    }
}
