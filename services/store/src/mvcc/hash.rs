//! A hash over the data, for comparing members.
use std::sync::Arc;

use super::{State, Version};
use crate::error::{Error, Result};

impl State {
    /// The hash of all versions that reads between the compaction and `revision` see (0: the newest), and that revision.
    pub(crate) fn hash(&self, revision: i64) -> Result<(u32, i64)> {
        let at = if revision == 0 { self.revision } else { revision };
        if revision > self.revision {
            return Err(Error::FutureRevision);
        }
        if revision > 0 && revision < self.compacted {
            return Err(Error::Compacted);
        }
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.compacted.to_be_bytes());
        for version in self.kept_versions().filter(|v| v.main <= at) {
            hasher.update(&version.key);
            for number in [version.main, version.sub, version.create_revision, version.version, version.lease] {
                hasher.update(&number.to_be_bytes());
            }
            hasher.update(&version.value);
        }
        Ok((hasher.finalize(), at))
    }

    /// All versions but those that the last compaction freed and [`State::trim`] did not reach yet, in key order.
    pub(super) fn kept_versions(&self) -> impl Iterator<Item = &Arc<Version>> {
        let mut versions = self.versions.values().peekable();
        std::iter::from_fn(move || {
            loop {
                let version = versions.next()?;
                let superseded = version.main <= self.compacted
                    && versions.peek().is_some_and(|next| next.key == version.key && next.main <= self.compacted);
                let gone = version.is_deletion() && version.main < self.compacted;
                if !superseded && !gone {
                    return Some(version);
                }
            }
        })
    }
}
