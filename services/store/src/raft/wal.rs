//! The log on disk: append-only files of [frames](super::frame), each frame one write that was made durable at once.
//!
//! The first frame of a file repeats what must outlive the files before it: vote, committed and purged. A write that was
//! cut off can only be the last frame of the last file: it is dropped when the log is opened. A frame that is all there
//! but wrong, with no sector of it left unwritten (etcd's test too), or that has sound frames behind it, is no cut-off
//! write but a broken disk, and is refused: it may have been acknowledged.
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use trireme_proto::raft::v1 as pb;

use super::frame::{FILE_HEAD, FRAME_HEAD, decode_frame, encode_frame, file_head, is_cut_off};
use super::snapshot_store::Damaged;
use super::types::{
    Entry, LogId, Vote, entry_from_proto, log_id_from_proto, log_id_to_proto, vote_from_proto, vote_to_proto,
};
use crate::data_dir::make_dir;
use crate::error::{Error, Result};

/// A file past this size is followed by a new one.
const FILE_SIZE: u64 = 16 << 20;

/// What the log holds, in memory.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) vote: Option<Vote>,
    pub(super) committed: Option<LogId>,
    pub(super) purged: Option<LogId>,
    pub(super) entries: VecDeque<Entry>,
    /// While it is read: entries that were purged, but are still there, are wanted too.
    with_purged: bool,
}

impl Contents {
    pub(super) fn last(&self) -> Option<LogId> {
        self.entries.back().map(|e| e.log_id).or(self.purged)
    }

    pub(super) fn truncate(&mut self, from: u64) {
        while self.entries.back().is_some_and(|e| e.log_id.index >= from) {
            self.entries.pop_back();
        }
    }

    pub(super) fn purge(&mut self, upto: LogId) {
        while self.entries.front().is_some_and(|e| e.log_id.index <= upto.index) {
            self.entries.pop_front();
        }
        self.purged = self.purged.max(Some(upto));
    }

    fn apply(&mut self, frame: pb::LogFrame) -> Result<()> {
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
    fn stand_in(&mut self, snapshot: Option<LogId>, damaged: &[Damaged]) -> Result<()> {
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
        // A file whose beginning never reached the disk holds nothing yet.
        if let Some(last) = numbers.last().copied()
            && !has_head(&path_of(dir, last))?
        {
            std::fs::remove_file(path_of(dir, last))?;
            numbers.pop();
        }
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
        let committed = contents.committed.as_ref().map(log_id_to_proto);
        let (vote, purged) = (contents.vote.as_ref().map(vote_to_proto), purged_on_disk.as_ref().map(log_id_to_proto));
        let last_index = contents.last().map_or(0, |id| id.index);
        let wal = match numbers.last() {
            Some(number) => {
                old.pop_back();
                let mut file = OpenOptions::new().read(true).write(true).open(path_of(dir, *number))?;
                let size = file.seek(SeekFrom::End(0))?;
                Self {
                    dir: dir.into(),
                    file,
                    number: *number,
                    size,
                    last_index,
                    old,
                    vote,
                    committed,
                    purged,
                    pending_committed: None,
                }
            }
            None => {
                let (file, size) = create_file(dir, 1, &pb::LogFrame::default())?;
                Self {
                    dir: dir.into(),
                    file,
                    number: 1,
                    size,
                    last_index,
                    old,
                    vote,
                    committed,
                    purged,
                    pending_committed: None,
                }
            }
        };
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

fn path_of(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:016x}.wal"))
}

fn file_numbers(dir: &Path) -> Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let name = entry?.file_name();
        if let Some(number) = name.to_str().and_then(|n| n.strip_suffix(".wal")) {
            numbers.push(
                u64::from_str_radix(number, 16).map_err(|_| Error::data(&dir.join(&name), "not a log file's name"))?,
            );
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn create_file(dir: &Path, number: u64, state: &pb::LogFrame) -> Result<(File, u64)> {
    let path = path_of(dir, number);
    let mut file = OpenOptions::new().create(true).truncate(true).read(true).write(true).open(path)?;
    let mut bytes = file_head(number);
    bytes.extend_from_slice(&encode_frame(state)?);
    file.write_all(&bytes)?;
    file.sync_all()?;
    File::open(dir)?.sync_all()?;
    Ok((file, bytes.len() as u64))
}

/// Whether a file is begun: its head and its first frame are there.
fn has_head(path: &Path) -> Result<bool> {
    let mut bytes = Vec::new();
    File::open(path)?.take((FILE_HEAD + FRAME_HEAD) as u64 + 4096).read_to_end(&mut bytes)?;
    Ok(bytes.len() >= FILE_HEAD && decode_frame(&bytes[FILE_HEAD..]).is_some())
}

/// Reads a file into `contents`. Of the last one a frame that was cut off is removed.
fn read_file(path: &Path, number: u64, is_last: bool, contents: &mut Contents) -> Result<()> {
    let bytes = std::fs::read(path)?;
    if bytes.get(..FILE_HEAD) != Some(&file_head(number)[..]) {
        return Err(Error::data(path, "not a log file of this format"));
    }
    let mut at = FILE_HEAD;
    while at < bytes.len() {
        let Some((frame, length)) = decode_frame(&bytes[at..]) else {
            let sound_behind = (at + 1..bytes.len()).any(|i| decode_frame(&bytes[i..]).is_some());
            if !is_last || sound_behind || !is_cut_off(&bytes, at) {
                return Err(Error::data(path, format!("log is damaged at byte {at}")));
            }
            tracing::warn!(file = %path.display(), at, dropped = bytes.len() - at, "dropped a write that was cut off");
            let file = OpenOptions::new().write(true).open(path)?;
            file.set_len(at as u64)?;
            file.sync_all()?;
            break;
        };
        contents.apply(frame).map_err(|e| Error::data(path, format!("at byte {at}: {e}")))?;
        at += length;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::frame::SECTOR;
    use super::*;

    /// Opens a log as if there were a snapshot of all that was purged.
    fn open(dir: &Path) -> Result<(Wal, Contents)> {
        let all = LogId::new(openraft::CommittedLeaderId::new(1, 1), u64::MAX);
        Wal::open(dir, (!file_numbers(dir)?.is_empty()).then_some(all), &[])
    }

    fn entry(index: u64) -> pb::Entry {
        let leader = pb::Leader { term: 1, node_id: 1 };
        pb::Entry { log_id: Some(pb::LogId { leader: Some(leader), index }), payload: None }
    }

    fn frame(indexes: impl IntoIterator<Item = u64>) -> pb::LogFrame {
        pb::LogFrame { entries: indexes.into_iter().map(entry).collect(), ..Default::default() }
    }

    fn indexes(contents: &Contents) -> Vec<u64> {
        contents.entries.iter().map(|e| e.log_id.index).collect()
    }

    #[test]
    fn a_write_cut_off_at_any_byte_is_dropped_and_only_that() {
        let dir = tempfile::tempdir().unwrap();
        let (mut wal, _) = open(dir.path()).unwrap();
        wal.write(&mut frame(1..=3)).unwrap();
        let whole = wal.size;
        wal.write(&mut frame(4..=5)).unwrap();
        let bytes = std::fs::read(path_of(dir.path(), 1)).unwrap();
        for cut in whole as usize..bytes.len() {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(path_of(dir.path(), 1), &bytes[..cut]).unwrap();
            let (mut wal, contents) = open(dir.path()).unwrap();
            assert_eq!(indexes(&contents), [1, 2, 3], "cut at {cut}");
            wal.write(&mut frame([4])).unwrap();
            assert_eq!(indexes(&open(dir.path()).unwrap().1), [1, 2, 3, 4]);
        }
    }

    #[test]
    fn a_file_cut_off_while_it_began_is_begun_again() {
        let dir = tempfile::tempdir().unwrap();
        drop(open(dir.path()).unwrap());
        let bytes = std::fs::read(path_of(dir.path(), 1)).unwrap();
        for cut in 0..bytes.len() {
            std::fs::write(path_of(dir.path(), 1), &bytes[..cut]).unwrap();
            let (mut wal, contents) = Wal::open(dir.path(), None, &[]).unwrap();
            assert!(contents.entries.is_empty());
            wal.write(&mut frame([1])).unwrap();
            assert_eq!(indexes(&open(dir.path()).unwrap().1), [1]);
        }
    }

    #[test]
    fn damage_before_sound_writes_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (mut wal, _) = open(dir.path()).unwrap();
        wal.write(&mut frame([1])).unwrap();
        let at = wal.size as usize;
        wal.write(&mut frame([2])).unwrap();
        wal.write(&mut frame([3])).unwrap();
        let path = path_of(dir.path(), 1);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[at + FRAME_HEAD] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let error = open(dir.path()).err().unwrap();
        assert!(error.to_string().contains("damaged"), "{error}");
    }

    #[test]
    fn truncation_and_purge_survive_and_old_files_go() {
        let dir = tempfile::tempdir().unwrap();
        let (mut wal, _) = open(dir.path()).unwrap();
        wal.write(&mut frame(1..=5)).unwrap();
        let truncate = entry(4).log_id;
        wal.write(&mut pb::LogFrame { truncate, entries: vec![entry(4)], ..Default::default() }).unwrap();
        wal.size = FILE_SIZE;
        let vote = Some(pb::Vote { leader: Some(pb::Leader { term: 3, node_id: 7 }), committed: true });
        wal.write(&mut pb::LogFrame { vote, ..frame([5]) }).unwrap();
        assert_eq!(file_numbers(dir.path()).unwrap(), [1, 2]);
        wal.write(&mut pb::LogFrame { purged: entry(4).log_id, ..Default::default() }).unwrap();
        assert_eq!(file_numbers(dir.path()).unwrap(), [2]);
        let (_, contents) = open(dir.path()).unwrap();
        assert_eq!(indexes(&contents), [5]);
        assert_eq!(contents.purged.map(|id| id.index), Some(4));
        assert_eq!(contents.vote, Some(Vote { leader_id: openraft::LeaderId::new(3, 7), committed: true }));
    }

    #[test]
    fn what_was_purged_before_and_after_a_rotation_is_not_missed() {
        let dir = tempfile::tempdir().unwrap();
        let purge = |index| pb::LogFrame { purged: entry(index).log_id, ..Default::default() };
        let (mut wal, _) = open(dir.path()).unwrap();
        wal.write(&mut frame(1..=5)).unwrap();
        wal.write(&mut purge(3)).unwrap();
        wal.size = FILE_SIZE;
        wal.write(&mut frame([6, 7])).unwrap();
        wal.write(&mut purge(6)).unwrap();
        assert_eq!(file_numbers(dir.path()).unwrap(), [2], "the file with entries up to 5 has gone");
        let (_, contents) = open(dir.path()).unwrap();
        assert_eq!(indexes(&contents), [7]);
        assert_eq!(contents.purged.map(|id| id.index), Some(6));
    }

    #[test]
    fn entries_that_are_missing_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (mut wal, _) = open(dir.path()).unwrap();
        wal.write(&mut pb::LogFrame { purged: entry(3).log_id, ..Default::default() }).unwrap();
        wal.write(&mut frame([6])).unwrap();
        let error = open(dir.path()).err().unwrap();
        assert!(error.to_string().contains("entries 4 to 5 are missing"), "{error}");
    }

    #[test]
    fn a_last_write_that_is_all_there_but_wrong_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (mut wal, _) = open(dir.path()).unwrap();
        wal.write(&mut frame([1])).unwrap();
        let at = wal.size as usize;
        wal.write(&mut frame(2..=200)).unwrap();
        let path = path_of(dir.path(), 1);
        let bytes = std::fs::read(&path).unwrap();
        for flipped in [at, at + 5, at + FRAME_HEAD, bytes.len() - 1] {
            let mut damaged = bytes.clone();
            damaged[flipped] ^= 0x40;
            std::fs::write(&path, &damaged).unwrap();
            let error = open(dir.path()).err().unwrap_or_else(|| panic!("byte {flipped} is missed"));
            assert!(error.to_string().contains("damaged"), "{error}");
        }
        // A sector that never reached the disk is a cut-off write, whatever came after it.
        let mut unwritten = bytes.clone();
        let sector = (at / SECTOR + 1) * SECTOR;
        assert!(sector + SECTOR < bytes.len());
        unwritten[sector..sector + SECTOR].fill(0);
        std::fs::write(&path, &unwritten).unwrap();
        assert_eq!(indexes(&open(dir.path()).unwrap().1), [1]);
    }

    #[test]
    fn a_log_or_a_snapshot_that_is_lost_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let snapshot = |index| Some(LogId::new(openraft::CommittedLeaderId::new(1, 1), index));
        let refused = |snapshot| Wal::open(dir.path(), snapshot, &[]).err().unwrap().to_string();
        for _ in 0..2 {
            assert!(refused(snapshot(7)).contains("the log is missing, but there is a snapshot up to entry 7"));
        }
        // So is one that was emptied.
        std::fs::write(path_of(dir.path(), 1), []).unwrap();
        assert!(refused(snapshot(7)).contains("the log is missing"));
        let (mut wal, _) = Wal::open(dir.path(), None, &[]).unwrap();
        wal.write(&mut frame(1..=5)).unwrap();
        wal.write(&mut pb::LogFrame { purged: entry(3).log_id, ..Default::default() }).unwrap();
        for lost in [None, snapshot(2)] {
            assert!(refused(lost).contains("the log begins after entry 3, but there is no snapshot up to it"));
        }
        assert!(Wal::open(dir.path(), snapshot(3), &[]).is_ok());
    }

    fn damaged(dir: &Path, last: (u64, u64)) -> Damaged {
        let name = format!("{:016x}-{:016x}.snap", last.0, last.1);
        Damaged { path: dir.join(name), last, error: Error::Corrupt("snapshot is damaged".into()) }
    }

    #[test]
    fn the_log_stands_in_for_a_damaged_snapshot_that_it_covers() {
        let dir = tempfile::tempdir().unwrap();
        let snapshot = |index| Some(LogId::new(openraft::CommittedLeaderId::new(1, 1), index));
        let (mut wal, _) = Wal::open(dir.path(), None, &[]).unwrap();
        wal.write(&mut frame(0..=9)).unwrap();
        wal.write(&mut pb::LogFrame { purged: entry(6).log_id, ..Default::default() }).unwrap();
        let (_, contents) = Wal::open(dir.path(), snapshot(8), &[]).unwrap();
        assert_eq!(indexes(&contents), [7, 8, 9], "with the snapshot, what it holds is not read");

        // From an older one, and from nothing. Both may be tried again before there is a new snapshot.
        for _ in 0..2 {
            let (_, contents) = Wal::open(dir.path(), snapshot(3), &[damaged(dir.path(), (8, 1))]).unwrap();
            assert_eq!(indexes(&contents), [4, 5, 6, 7, 8, 9]);
            assert_eq!((contents.purged, contents.committed), (snapshot(3), snapshot(8)));
            let both = [damaged(dir.path(), (8, 1)), damaged(dir.path(), (3, 1))];
            let (_, contents) = Wal::open(dir.path(), None, &both).unwrap();
            assert_eq!(indexes(&contents), (0..=9).collect::<Vec<_>>());
            assert_eq!((contents.purged, contents.committed), (None, snapshot(8)));
        }

        // An entry of another leader's, or one that never came, is not what the snapshot held.
        for last in [(8, 2), (10, 1)] {
            let error = Wal::open(dir.path(), None, &[damaged(dir.path(), last)]).err().unwrap().to_string();
            assert!(error.contains("cannot be made again from the log: it does not hold entry"), "{error}");
        }
    }

    #[test]
    fn a_damaged_snapshot_that_the_log_does_not_reach_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let lost = [damaged(dir.path(), (6, 1))];
        let refused = || Wal::open(dir.path(), None, &lost).err().unwrap().to_string();
        assert!(refused().contains("the log is missing, but there is a snapshot up to entry 6"));
        let (mut wal, _) = Wal::open(dir.path(), None, &[]).unwrap();
        wal.write(&mut frame(0..=2)).unwrap();
        wal.write(&mut pb::LogFrame { purged: entry(5).log_id, ..Default::default() }).unwrap();
        // A leader's snapshot was installed over what was here.
        wal.write(&mut frame(6..=9)).unwrap();
        let error = refused();
        assert!(error.contains("it does not reach back to entry 0; restore the data directory"), "{error}");
    }

    #[test]
    fn a_log_whose_beginning_is_gone_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (mut wal, _) = Wal::open(dir.path(), None, &[]).unwrap();
        wal.write(&mut frame(0..=2)).unwrap();
        wal.size = FILE_SIZE;
        wal.write(&mut frame([3])).unwrap();
        std::fs::remove_file(path_of(dir.path(), 1)).unwrap();
        let error = Wal::open(dir.path(), None, &[]).err().unwrap().to_string();
        assert!(error.contains("the log begins with entry 3, but there is no snapshot"), "{error}");
    }
}
