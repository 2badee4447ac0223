//! The data directory: who it belongs to, and that one process has it.
//!
//! ```text
//! member   format and identity, written once
//! lock     held while a process runs
//! wal/     the log
//! snap/    snapshots
//! ```
//!
//! Whoever reads it reads every object, so it is nobody else's: folders 0700, files 0600, as etcd's.
use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

const FORMAT: u32 = 1;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    format: u32,
    cluster_id: u64,
    member_id: u64,
}

/// A data directory that is held.
#[derive(Debug)]
pub(crate) struct DataDir {
    _lock: File,
}

impl DataDir {
    /// Takes a directory for a member, making it if it is not there.
    pub(crate) fn open(dir: &Path, cluster_id: u64, member_id: u64) -> Result<Self> {
        make_dir(dir).map_err(|e| Error::file(dir, e))?;
        let path = dir.join("lock");
        let lock = create_own(&path).map_err(|e| Error::file(&path, e))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::data(dir, "another process uses this directory")),
            Err(TryLockError::Error(error)) => return Err(Error::file(&path, error)),
        }
        let path = dir.join("member");
        let wanted = Identity { format: FORMAT, cluster_id, member_id };
        match std::fs::read(&path) {
            Ok(bytes) => {
                let found: Identity = serde_json::from_slice(&bytes).map_err(|e| Error::data(&path, e))?;
                if found.format != FORMAT {
                    return Err(Error::data(&path, format!("format {} is not known here", found.format)));
                }
                if found != wanted {
                    let reason = "the directory belongs to another member or cluster: the flags for peer URLs, initial \
                                  cluster and token have to stay as they were";
                    return Err(Error::data(&path, reason));
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                if dir.join("wal").exists() || dir.join("snap").exists() {
                    return Err(Error::data(&path, "is missing, but there is data"));
                }
                write_durably(dir, "member", &serde_json::to_vec(&wanted).map_err(|e| Error::data(&path, e))?)?;
            }
            Err(error) => return Err(Error::file(&path, error)),
        }
        std::fs::set_permissions(dir, Permissions::from_mode(0o700)).map_err(|e| Error::file(dir, e))?;
        Ok(Self { _lock: lock })
    }
}

/// Makes a folder, and those above it, so that a power cut does not take them away again.
pub(crate) fn make_dir(dir: &Path) -> std::io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let parent = dir.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    make_dir(parent)?;
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    File::open(parent)?.sync_all()
}

/// Makes or empties a file that nobody else may read.
pub(crate) fn create_own(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).truncate(true).read(true).write(true).mode(0o600).open(path)
}

fn write_durably(dir: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    let scratch = dir.join(format!("{name}.tmp"));
    let mut file = create_own(&scratch)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(scratch, dir.join(name))?;
    File::open(dir)?.sync_all()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_else_may_read_it() {
        let above = tempfile::tempdir().unwrap();
        let dir = above.path().join("data");
        std::fs::create_dir(&dir).unwrap();
        std::fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
        let _held = DataDir::open(&dir, 1, 1).unwrap();
        make_dir(&dir.join("wal")).unwrap();
        let mode = |name: &str| std::fs::metadata(dir.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(""), mode("wal"), mode("member"), mode("lock")), (0o700, 0o700, 0o600, 0o600));
    }
}
