//! Forgetting old versions.
use std::collections::BTreeSet;
use std::ops::Bound;

use bytes::Bytes;

use super::{State, VersionKey};
use crate::error::{Error, Result};

impl State {
    /// Makes `revision` the oldest that can be read. What that frees is dropped by [`State::trim`].
    pub(crate) fn compact(&mut self, revision: i64) -> Result<()> {
        if revision <= self.compacted {
            return Err(Error::Compacted);
        }
        if revision > self.revision {
            return Err(Error::FutureRevision);
        }
        self.compacted = revision;
        Ok(())
    }

    /// Whether [`State::trim`] has something to do.
    pub(crate) fn wants_trim(&self) -> bool {
        self.trimmed < self.compacted
    }

    /// Drops what the last compaction freed, at most so many revisions at once, so that a large compaction does not
    /// hold up the writes behind it.
    pub(crate) fn trim(&mut self, revisions: usize) {
        if !self.wants_trim() {
            return;
        }
        let mut keys: BTreeSet<Bytes> = BTreeSet::new();
        let mut upto = self.compacted;
        for (count, (revision, changes)) in self.log.range(self.trimmed..=self.compacted).enumerate() {
            if count == revisions {
                upto = *revision;
                break;
            }
            keys.extend(changes.iter().map(|c| c.version.key.clone()));
        }
        for key in keys {
            self.trim_key(&key, upto);
        }
        // The changes of the compacted revision itself can still be watched.
        for revision in self.trimmed..upto {
            self.log.remove(&revision);
        }
        self.trimmed = upto;
    }

    /// Drops the versions of a key that no read at `upto` or later sees.
    fn trim_key(&mut self, key: &Bytes, upto: i64) {
        let Some(last) = self.version_at(key, upto).cloned() else { return };
        let keep_last = !last.is_deletion() || last.main >= self.compacted;
        let from = (key.clone(), i64::MIN, i64::MIN);
        let last_key = (key.clone(), last.main, last.sub);
        let end = if keep_last { Bound::Excluded(&last_key) } else { Bound::Included(&last_key) };
        let doomed = self.versions.range::<_, VersionKey>((Bound::Included(&from), end)).map(|(key, _)| key.clone());
        let doomed: Vec<_> = doomed.collect();
        for key in doomed {
            if let Some(version) = self.versions.remove(&key) {
                self.size -= version.size();
            }
        }
    }
}
