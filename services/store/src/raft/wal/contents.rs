//! What a log holds, as its frames are read.

use std::collections::VecDeque;

use trireme_proto::raft::v1 as pb;

use super::super::snapshot_store::Damaged;
use super::super::types::{Entry, LogId, Vote, entry_from_proto, log_id_from_proto, vote_from_proto};
use crate::error::{Error, Result};

/// What the log holds, in memory.
#[derive(Debug, Default)]
pub(in crate::raft) struct Contents {
    pub(in crate::raft) vote: Option<Vote>,
    pub(in crate::raft) committed: Option<LogId>,
    pub(in crate::raft) purged: Option<LogId>,
    pub(in crate::raft) entries: VecDeque<Entry>,
    /// While it is read: entries that were purged, but are still there, are wanted too.
    pub(super) with_purged: bool,
}

impl Contents {
    pub(in crate::raft) fn last(&self) -> Option<LogId> {
        self.entries.back().map(|e| e.log_id).or(self.purged)
    }

    pub(in crate::raft) fn truncate(&mut self, from: u64) {
        while self.entries.back().is_some_and(|e| e.log_id.index >= from) {
            self.entries.pop_back();
        }
    }

    pub(in crate::raft) fn purge(&mut self, upto: LogId) {
        while self.entries.front().is_some_and(|e| e.log_id.index <= upto.index) {
            self.entries.pop_front();
        }
        self.purged = self.purged.max(Some(upto));
    }

    pub(super) fn apply(&mut self, frame: pb::LogFrame) -> Result<()> {
        if let Some(vote) = frame.vote {
            self.vote = Some(vote_from_proto(vote));
        }
        if let Some(id) = frame.truncate {
            self.truncate(id.index);
        }
        for entry in frame.entries {
            let entry = entry_from_proto(entry)?;
            // What the first entry follows is known only at the end: files before this one may have gone since.
            if let Some(last) = self.entries.back()
                && entry.log_id.index != last.log_id.index + 1
            {
                if self.with_purged {
                    self.entries.clear();
                    self.entries.push_back(entry);
                    continue;
                }
                return Err(Error::Corrupt(format!("entry {} follows {}", entry.log_id.index, last.log_id.index)));
            }
            self.entries.push_back(entry);
        }
        match frame.purged.map(log_id_from_proto) {
            Some(id) if self.with_purged => self.purged = self.purged.max(Some(id)),
            Some(id) => self.purge(id),
            None => {}
        }
        if let Some(id) = frame.committed {
            self.committed = Some(log_id_from_proto(id));
        }
        Ok(())
    }

    /// Goes on from an older snapshot, or from nothing, since those after it are damaged. What they held has to be in the
    /// entries up to the very last, whose term tells that it is the same: this member may have said that it has all that.
    pub(super) fn stand_in(&mut self, snapshot: Option<LogId>, damaged: &[Damaged]) -> Result<()> {
        let Some(newest) = damaged.first() else { return Ok(()) };
        let begins = snapshot.map_or(0, |id| id.index + 1);
        let first = self.entries.front().map(|entry| entry.log_id.index);
        if first.is_none_or(|first| first > begins) {
            return Err(newest.refused(format!("it does not reach back to entry {begins}")));
        }
        for lost in damaged {
            let mut ids = self.entries.iter().map(|entry| entry.log_id);
            let Some(last) = ids.find(|id| (id.index, id.leader_id.term) == lost.last) else {
                return Err(lost.refused(format!("it does not hold entry {} of term {}", lost.last.0, lost.last.1)));
            };
            // Only what was committed gets into a snapshot.
            self.committed = self.committed.max(Some(last));
        }
        self.purged = None;
        if let Some(id) = snapshot {
            self.purge(id);
        }
        Ok(())
    }
}
