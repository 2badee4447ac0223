//! What a log keeps over cut-off writes, damage, rotation and loss.

use super::super::frame::{FILE_HEAD, FRAME_HEAD, SECTOR};
use super::super::snapshot_store::Damaged;
use super::super::types::{LogId, Vote};
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

/// A file that was begun and is damaged at its beginning holds what was acknowledged: it is refused, and stays.
#[test]
fn damage_at_the_beginning_of_the_last_file_is_refused_and_nothing_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let (mut wal, _) = Wal::open(dir.path(), None, &[]).unwrap();
    let first_frame = FILE_HEAD..wal.size as usize;
    for indexes in [0..=2, 3..=4, 5..=5] {
        wal.write(&mut frame(indexes)).unwrap();
    }
    let path = path_of(dir.path(), 1);
    let sound = std::fs::read(&path).unwrap();
    for flipped in (0..FILE_HEAD).chain(first_frame) {
        let mut bytes = sound.clone();
        bytes[flipped] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let error = Wal::open(dir.path(), None, &[]).err().unwrap_or_else(|| panic!("byte {flipped} is missed"));
        assert!(error.to_string().contains("0000000000000001.wal"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "byte {flipped}");
    }
}

#[test]
fn what_is_left_of_a_file_that_was_not_begun_stays_until_the_rest_is_known_to_be_sound() {
    let dir = tempfile::tempdir().unwrap();
    let (mut wal, _) = Wal::open(dir.path(), None, &[]).unwrap();
    wal.write(&mut frame(0..=2)).unwrap();
    let begun = path_of(dir.path(), 3);
    for left in [&[][..], &[0; 600], b"trireme-w"] {
        std::fs::write(&begun, left).unwrap();
        let error = Wal::open(dir.path(), Some(LogId::new(openraft::CommittedLeaderId::new(1, 1), 9)), &[]);
        // Nothing is wrong but that file 2 is missing, which is not asked of what was not begun.
        assert!(error.is_ok() && !begun.exists());
    }
    std::fs::write(&begun, []).unwrap();
    std::fs::write(path_of(dir.path(), 1), b"something else that is long enough to have a head").unwrap();
    assert!(Wal::open(dir.path(), None, &[]).is_err() && begun.exists());
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
