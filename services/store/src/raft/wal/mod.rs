//! The log on disk: append-only files of [frames](super::frame), each frame one write that was made durable at once.
//!
//! The first frame of a file repeats what must outlive the files before it: vote, committed and purged. A write that was
//! cut off can only be the last frame of the last file: it is dropped when the log is opened. A frame that is all there
//! but wrong, with no sector of it left unwritten (etcd's test too), or that has sound frames behind it, is no cut-off
//! write but a broken disk, and is refused: it may have been acknowledged.
mod contents;
mod files;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use trireme_proto::raft::v1 as pb;

pub(super) use contents::Contents;
use files::{create_file, file_numbers, is_begun, path_of, read_file};

use super::frame::encode_frame;
use super::snapshot_store::Damaged;
use super::types::{LogId, log_id_to_proto, vote_to_proto};
use crate::data_dir::make_dir;
use crate::error::{Error, Result};

/// A file past this size is followed by a new one.
const FILE_SIZE: u64 = 16 << 20;

struct OldFile {
    path: PathBuf,
    last_index: u64,
}

/// The files, open for appending.
pub(super) struct Wal {
    dir: PathBuf,
    file: File,
    number: u64,
    size: u64,
    last_index: u64,
    old: VecDeque<OldFile>,
    vote: Option<pb::Vote>,
    committed: Option<pb::LogId>,
    purged: Option<pb::LogId>,
    pending_committed: Option<pb::LogId>,
}

impl Wal {
    /// Opens the log of a folder, or begins one. Together with the newest snapshot, which goes up to `snapshot`, it has to
    /// hold everything, what snapshots held that are damaged too: one of the two that is lost is refused.
    pub(super) fn open(dir: &Path, snapshot: Option<LogId>, damaged: &[Damaged]) -> Result<(Self, Contents)> {
        make_dir(dir).map_err(|e| Error::file(dir, e))?;
        let mut contents = Contents { with_purged: !damaged.is_empty(), ..Contents::default() };
        let mut numbers = file_numbers(dir)?;
        // Only what was not begun is left out, and removed when all else is known to be sound.
        let last = numbers.last().copied();
        let not_begun = match last {
            Some(last) if !is_begun(&path_of(dir, last), last)? => numbers.pop(),
            _ => None,
        };
        if let Some(gap) = numbers.windows(2).find(|pair| pair[0] + 1 != pair[1]) {
            return Err(Error::data(&path_of(dir, gap[0] + 1), "log file is missing"));
        }
        let held = snapshot.map(|id| id.index).max(damaged.first().map(|newest| newest.last.0));
        if let (true, Some(index)) = (numbers.is_empty(), held) {
            let reason = format!("the log is missing, but there is a snapshot up to entry {index}");
            return Err(Error::data(dir, reason));
        }
        let mut old = VecDeque::new();
        for (i, number) in numbers.iter().enumerate() {
            let path = path_of(dir, *number);
            read_file(&path, *number, i + 1 == numbers.len(), &mut contents)?;
            old.push_back(OldFile { path, last_index: contents.last().map_or(0, |id| id.index) });
        }
        let purged_on_disk = contents.purged;
        contents.stand_in(snapshot, damaged)?;
        if let (Some(first), Some(purged)) = (contents.entries.front(), contents.purged)
            && first.log_id.index > purged.index + 1
        {
            let reason = format!("entries {} to {} are missing", purged.index + 1, first.log_id.index - 1);
            return Err(Error::data(dir, reason));
        }
        if let Some(purged) = contents.purged
            && snapshot.is_none_or(|id| id.index < purged.index)
        {
            let reason = format!(
                "the log begins after entry {}, but there is no snapshot up to it: a file of snap/ was removed; put it \
                 back or restore the data directory from a copy",
                purged.index
            );
            return Err(Error::data(dir, reason));
        }
        if let (Some(first), None, None) = (contents.entries.front(), contents.purged, snapshot)
            && first.log_id.index > 0
        {
            let reason = format!("the log begins with entry {}, but there is no snapshot", first.log_id.index);
            return Err(Error::data(dir, reason));
        }
        if let Some(number) = not_begun {
            std::fs::remove_file(path_of(dir, number))?;
        }
        let committed = contents.committed.as_ref().map(log_id_to_proto);
        let (vote, purged) = (contents.vote.as_ref().map(vote_to_proto), purged_on_disk.as_ref().map(log_id_to_proto));
        let last_index = contents.last().map_or(0, |id| id.index);
        let (file, number, size) = match numbers.last() {
            Some(number) => {
                old.pop_back();
                let mut file = OpenOptions::new().read(true).write(true).open(path_of(dir, *number))?;
                let size = file.seek(SeekFrom::End(0))?;
                (file, *number, size)
            }
            None => {
                let (file, size) = create_file(dir, 1, &pb::LogFrame::default())?;
                (file, 1, size)
            }
        };
        let dir = dir.into();
        let wal = Self { dir, file, number, size, last_index, old, vote, committed, purged, pending_committed: None };
        Ok((wal, contents))
    }

    /// Appends a frame and makes it durable.
    pub(super) fn write(&mut self, frame: &mut pb::LogFrame) -> Result<()> {
        frame.committed = frame.committed.or(self.pending_committed.take());
        if self.size >= FILE_SIZE {
            self.next_file()?;
        }
        let bytes = encode_frame(frame)?;
        self.file.write_all(&bytes)?;
        self.file.sync_data()?;
        self.size += bytes.len() as u64;
        if let Some(last) = frame.entries.last().and_then(|e| e.log_id.as_ref()) {
            self.last_index = last.index;
        }
        self.vote = frame.vote.or(self.vote);
        self.committed = frame.committed.or(self.committed);
        if frame.purged.is_some() {
            self.purged = frame.purged;
            self.drop_old()?;
        }
        Ok(())
    }

    /// Remembers how far commits got, to be written with the next frame.
    pub(super) fn note_committed(&mut self, committed: Option<pb::LogId>) {
        self.pending_committed = committed.or(self.pending_committed);
    }

    fn next_file(&mut self) -> Result<()> {
        let state =
            pb::LogFrame { vote: self.vote, committed: self.committed, purged: self.purged, ..Default::default() };
        let (file, size) = create_file(&self.dir, self.number + 1, &state)?;
        self.old.push_back(OldFile { path: path_of(&self.dir, self.number), last_index: self.last_index });
        (self.file, self.size, self.number) = (file, size, self.number + 1);
        Ok(())
    }

    /// Removes files whose entries are all purged, oldest first.
    fn drop_old(&mut self) -> Result<()> {
        let purged = self.purged.as_ref().map_or(0, |id| id.index);
        while self.old.front().is_some_and(|old| old.last_index <= purged) {
            if let Some(old) = self.old.pop_front() {
                std::fs::remove_file(old.path)?;
            }
        }
        Ok(())
    }
}
