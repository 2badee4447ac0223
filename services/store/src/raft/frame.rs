//! The bytes of the log: files and the frames in them.
//!
//! ```text
//! file   = magic(12) format(u32) number(u64) crc(u32)  frame*
//! frame  = magic(u32) length(u32) crc(u32) head-crc(u32)  LogFrame
//! ```
use prost::Message;
use trireme_proto::raft::v1 as pb;

use crate::error::{Error, Result};

const FILE_MAGIC: &[u8; 12] = b"trireme-wal\0";
const FORMAT: u32 = 1;
/// Bytes of the head of a file.
pub(super) const FILE_HEAD: usize = 28;
const FRAME_MAGIC: u32 = 0x7472_4c46;
/// Bytes of the head of a frame.
pub(super) const FRAME_HEAD: usize = 16;
/// What a disk writes whole.
pub(super) const SECTOR: usize = 512;

/// What a file of the log begins with.
pub(super) fn file_head(number: u64) -> Vec<u8> {
    let mut head = Vec::with_capacity(FILE_HEAD);
    head.extend_from_slice(FILE_MAGIC);
    head.extend_from_slice(&FORMAT.to_be_bytes());
    head.extend_from_slice(&number.to_be_bytes());
    head.extend_from_slice(&crc32fast::hash(&head).to_be_bytes());
    head
}

/// A frame as it is written.
pub(super) fn encode_frame(frame: &pb::LogFrame) -> Result<Vec<u8>> {
    let length = frame.encoded_len();
    let mut bytes = Vec::with_capacity(FRAME_HEAD + length);
    bytes.extend_from_slice(&[0; FRAME_HEAD]);
    // What it is encoded into has no end.
    frame.encode(&mut bytes).map_err(std::io::Error::other)?;
    let length = u32::try_from(length).map_err(|_| Error::RequestTooLarge)?;
    let crc = crc32fast::hash(&bytes[FRAME_HEAD..]);
    bytes[..4].copy_from_slice(&FRAME_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&length.to_be_bytes());
    bytes[8..12].copy_from_slice(&crc.to_be_bytes());
    let head_crc = crc32fast::hash(&bytes[..12]);
    bytes[12..16].copy_from_slice(&head_crc.to_be_bytes());
    Ok(bytes)
}

/// The frame that `bytes` begins with, if it is whole, and its length.
pub(super) fn decode_frame(bytes: &[u8]) -> Option<(pb::LogFrame, usize)> {
    let number = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
    if number(0)? != FRAME_MAGIC || number(12)? != crc32fast::hash(&bytes[..12]) {
        return None;
    }
    let end = FRAME_HEAD + number(4)? as usize;
    let payload = bytes.get(FRAME_HEAD..end)?;
    if crc32fast::hash(payload) != number(8)? {
        return None;
    }
    pb::LogFrame::decode(payload).ok().map(|frame| (frame, end))
}

/// Whether the frame at `at`, which is not sound, can be a write that did not end: some of it is not there, or a sector
/// of it was never written and reads as zeros.
pub(super) fn is_cut_off(bytes: &[u8], at: usize) -> bool {
    let rest = &bytes[at..];
    let number = |at: usize| rest.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_be_bytes);
    let head_is_sound = number(0) == Some(FRAME_MAGIC) && number(12) == rest.get(..12).map(crc32fast::hash);
    let length = number(4).filter(|_| head_is_sound).map(|length| FRAME_HEAD + length as usize);
    let end = at + length.unwrap_or(FRAME_HEAD.max(rest.len()));
    end > bytes.len() || {
        let first = (at / SECTOR + 1) * SECTOR;
        let starts = std::iter::once(at).chain((first..end).step_by(SECTOR));
        starts.into_iter().any(|from| bytes[from..end.min((from / SECTOR + 1) * SECTOR)].iter().all(|b| *b == 0))
    }
}
