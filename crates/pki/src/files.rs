//! Files that appear whole or not at all.

use std::{
    fs,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use crate::Error;

/// Who may read a file.
#[derive(Clone, Copy)]
pub(crate) enum Secrecy {
    /// Mode 0644.
    Public,
    /// Mode 0600.
    Secret,
}

/// Writes `content` beside `path`, syncs it, and renames it over `path`.
pub(crate) fn write(path: &Path, content: &[u8], secrecy: Secrecy) -> Result<(), Error> {
    let mode = match secrecy {
        Secrecy::Public => 0o644,
        Secrecy::Secret => 0o600,
    };
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let write = || -> std::io::Result<()> {
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        // A key that a power cut takes back would be made anew, and nothing opens what it sealed.
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).map_or(Ok(()), |f| fs::File::open(f)?.sync_all())
    };
    write().map_err(|e| Error::file(path, e))
}

/// The text of `path`, or `None` if there is no such file.
pub(crate) fn read(path: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::file(path, e)),
    }
}
