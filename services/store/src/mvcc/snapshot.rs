//! The state as a file: a magic, a version, then frames (length, CRC, bytes): a head, the versions in key order.
//! A SHA-256 over all before it ends the file.
use std::io::{Read, Write};
use std::sync::Arc;

use bytes::Bytes;
use imbl::{OrdMap, OrdSet};
use prost::Message;
use sha2::{Digest, Sha256};
use trireme_proto::raft::v1::{SnapshotAlarm, SnapshotHead, SnapshotLease, SnapshotMeta, SnapshotVersion};

use super::{Change, Lease, State, Version};
use crate::error::{Error, Result};

const MAGIC: &[u8; 12] = b"trireme-snap";
const FORMAT: u32 = 1;
/// No frame of a sound file is longer.
const LONGEST: u32 = 64 << 20;

/// Writes a state; answers the number of bytes.
pub(crate) fn write_snapshot(
    state: &State,
    meta: SnapshotMeta,
    cluster_id: u64,
    out: impl Write,
) -> std::io::Result<u64> {
    let mut out = Hashed { inner: out, hash: Sha256::new(), bytes: 0 };
    out.write_all(MAGIC)?;
    out.write_all(&FORMAT.to_be_bytes())?;
    let head = SnapshotHead {
        meta: Some(meta),
        cluster_id,
        incarnation: state.incarnation.to_string(),
        revision: state.revision,
        compacted: state.compacted,
        versions: state.kept_versions().count() as u64,
        leases: state
            .leases
            .iter()
            .map(|(id, lease)| SnapshotLease { id: *id, ttl: lease.ttl, granted: lease.granted })
            .collect(),
        alarms: state.alarms.iter().map(|(member, kind)| SnapshotAlarm { member: *member, kind: *kind }).collect(),
    };
    write_frame(&mut out, &head)?;
    for version in state.kept_versions() {
        let frame = SnapshotVersion {
            key: version.key.clone(),
            main: version.main,
            sub: version.sub,
            create_revision: version.create_revision,
            version: version.version,
            value: version.value.clone(),
            lease: version.lease,
            cause: version.cause.as_deref().cloned(),
        };
        write_frame(&mut out, &frame)?;
    }
    let Hashed { mut inner, hash, bytes } = out;
    let digest = hash.finalize();
    inner.write_all(&digest)?;
    inner.flush()?;
    Ok(bytes + digest.len() as u64)
}

struct Hashed<W> {
    inner: W,
    hash: Sha256,
    bytes: u64,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        let n = self.inner.write(buf)?;
        self.hash.update(&buf[..n]);
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}

fn write_frame(out: &mut impl Write, message: &impl Message) -> std::io::Result<()> {
    let bytes = message.encode_to_vec();
    let length = u32::try_from(bytes.len()).map_err(std::io::Error::other)?;
    out.write_all(&length.to_be_bytes())?;
    out.write_all(&crc32fast::hash(&bytes).to_be_bytes())?;
    out.write_all(&bytes)
}

/// Reads a snapshot file: first its head, then, if wanted, the whole state.
pub(crate) struct SnapshotReader<R> {
    input: R,
    hash: Sha256,
    head: SnapshotHead,
}

impl<R: Read> SnapshotReader<R> {
    /// Reads the head.
    pub(crate) fn open(input: R) -> Result<Self> {
        let mut reader = Self { input, hash: Sha256::new(), head: SnapshotHead::default() };
        let mut magic = [0; MAGIC.len()];
        reader.fill(&mut magic)?;
        if &magic != MAGIC {
            return Err(Error::Corrupt("not a snapshot of this store".into()));
        }
        let format = reader.number()?;
        if format != FORMAT {
            return Err(Error::UnknownFormat(format));
        }
        reader.head = reader.frame()?;
        Ok(reader)
    }

    /// The head.
    pub(crate) fn head(&self) -> &SnapshotHead {
        &self.head
    }

    /// Reads the rest, and checks all of it.
    pub(crate) fn read(mut self) -> Result<(State, SnapshotHead)> {
        let mut versions = Vec::with_capacity(usize::try_from(self.head.versions).unwrap_or_default().min(1 << 20));
        for _ in 0..self.head.versions {
            let v: SnapshotVersion = self.frame()?;
            versions.push(Arc::new(Version {
                key: Bytes::copy_from_slice(&v.key),
                main: v.main,
                sub: v.sub,
                create_revision: v.create_revision,
                version: v.version,
                value: Bytes::copy_from_slice(&v.value),
                lease: v.lease,
                cause: v.cause.map(Box::new),
            }));
        }
        let digest = std::mem::take(&mut self.hash).finalize();
        let mut stored = [0; 32];
        self.fill(&mut stored)?;
        if stored != digest[..] {
            return Err(Error::Corrupt("snapshot is damaged: its digest differs".into()));
        }
        Ok((State::from_parts(&self.head, versions), self.head))
    }

    fn fill(&mut self, buf: &mut [u8]) -> Result<()> {
        self.input.read_exact(buf).map_err(|e| match e.kind() {
            std::io::ErrorKind::UnexpectedEof => Error::Corrupt("snapshot is damaged: it is cut off".into()),
            _ => e.into(),
        })?;
        self.hash.update(&*buf);
        Ok(())
    }

    fn number(&mut self) -> Result<u32> {
        let mut number = [0; 4];
        self.fill(&mut number)?;
        Ok(u32::from_be_bytes(number))
    }

    fn frame<M: Message + Default>(&mut self) -> Result<M> {
        let (length, crc) = (self.number()?, self.number()?);
        if length > LONGEST {
            return Err(Error::Corrupt("snapshot is damaged: a frame is too long".into()));
        }
        let mut bytes = vec![0; length as usize];
        self.fill(&mut bytes)?;
        if crc32fast::hash(&bytes) != crc {
            return Err(Error::Corrupt("snapshot is damaged: a checksum differs".into()));
        }
        M::decode(bytes.as_slice()).map_err(Error::decode("a frame of the snapshot"))
    }
}

impl State {
    /// Builds the maps again from the versions in order.
    fn from_parts(head: &SnapshotHead, versions: Vec<Arc<Version>>) -> State {
        let leases = head.leases.iter().map(|l| (l.id, Lease { ttl: l.ttl, granted: l.granted, keys: OrdSet::new() }));
        let mut state = State {
            revision: head.revision,
            compacted: head.compacted,
            incarnation: head.incarnation.as_str().into(),
            leases: leases.collect(),
            alarms: head.alarms.iter().map(|a| (a.member, a.kind)).collect(),
            trimmed: head.compacted.max(super::FIRST_REVISION),
            ..State::default()
        };
        let mut log: std::collections::BTreeMap<i64, Vec<Change>> = Default::default();
        let mut live: Vec<(Bytes, Arc<Version>)> = Vec::new();
        let mut before: Option<Arc<Version>> = None;
        let mut latest: Option<Arc<Version>> = None;
        for version in &versions {
            state.size += version.size();
            if latest.as_ref().is_none_or(|l| l.key != version.key) {
                before = None;
            } else if latest.as_ref().is_some_and(|l| l.main < version.main) {
                before = latest.take();
            }
            if version.main >= state.trimmed {
                let previous = before.clone().filter(|v| !v.is_deletion());
                log.entry(version.main).or_default().push(Change { version: version.clone(), previous });
            }
            latest = Some(version.clone());
            if live.last().is_some_and(|(key, _)| *key == version.key) {
                live.pop();
            }
            if !version.is_deletion() {
                live.push((version.key.clone(), version.clone()));
            }
        }
        for (key, version) in &live {
            state.live_size += version.size();
            if version.lease != 0
                && let Some(lease) = state.leases.get_mut(&version.lease)
            {
                lease.keys.insert(key.clone());
            }
        }
        state.log = log
            .into_iter()
            .map(|(revision, mut changes)| {
                changes.sort_by_key(|c| c.version.sub);
                (revision, Arc::from(changes))
            })
            .collect();
        state.live = live.into_iter().collect();
        state.versions = versions.into_iter().map(|v| ((v.key.clone(), v.main, v.sub), v)).collect::<OrdMap<_, _>>();
        state
    }
}
