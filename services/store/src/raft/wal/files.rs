//! The files of a log: their names, how one begins, how one is read.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use trireme_proto::raft::v1 as pb;

use super::super::frame::{FILE_HEAD, decode_frame, encode_frame, file_head, is_cut_off};
use super::contents::Contents;
use crate::data_dir::create_own;
use crate::error::{Error, Result};

pub(super) fn path_of(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:016x}.wal"))
}

pub(super) fn file_numbers(dir: &Path) -> Result<Vec<u64>> {
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

pub(super) fn create_file(dir: &Path, number: u64, state: &pb::LogFrame) -> Result<(File, u64)> {
    let path = path_of(dir, number);
    let mut file = create_own(&path)?;
    let mut bytes = file_head(number);
    bytes.extend_from_slice(&encode_frame(state)?);
    file.write_all(&bytes)?;
    file.sync_all()?;
    File::open(dir)?.sync_all()?;
    Ok((file, bytes.len() as u64))
}

/// Whether a file is begun: its head and its first frame are there, or were and are damaged. One whose beginning never
/// reached the disk holds nothing yet; nothing that was acknowledged can lie behind it.
pub(super) fn is_begun(path: &Path, number: u64) -> Result<bool> {
    let bytes = std::fs::read(path)?;
    let head = file_head(number);
    if bytes.len() < FILE_HEAD {
        return Ok(!head.starts_with(&bytes) && bytes.iter().any(|byte| *byte != 0));
    }
    if bytes[..FILE_HEAD] != head[..] {
        return Ok(bytes.iter().any(|byte| *byte != 0));
    }
    Ok(decode_frame(&bytes[FILE_HEAD..]).is_some()
        || !is_cut_off(&bytes, FILE_HEAD)
        || has_sound(&bytes, FILE_HEAD + 1))
}

/// Whether a sound frame begins at `from` or behind it.
fn has_sound(bytes: &[u8], from: usize) -> bool {
    (from..bytes.len()).any(|at| decode_frame(&bytes[at..]).is_some())
}

/// Reads a file into `contents`. Of the last one a frame that was cut off is removed.
pub(super) fn read_file(path: &Path, number: u64, is_last: bool, contents: &mut Contents) -> Result<()> {
    let bytes = std::fs::read(path)?;
    if bytes.get(..FILE_HEAD) != Some(&file_head(number)[..]) {
        return Err(Error::data(path, "not a log file of this format"));
    }
    let mut at = FILE_HEAD;
    while at < bytes.len() {
        let Some((frame, length)) = decode_frame(&bytes[at..]) else {
            if !is_last || has_sound(&bytes, at + 1) || !is_cut_off(&bytes, at) {
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
