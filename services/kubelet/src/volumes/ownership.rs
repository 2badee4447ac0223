//! Whose files they are.

use crate::error::{Error, Result};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown};
use std::path::Path;

/// The folder itself may be used by whoever the container runs as.
pub(super) fn open_to_all(path: &Path) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o777))
        .map_err(|error| Error::io("change the mode of", path, error))
}

/// Gives all below `path` to a group that may then read it, and write it if it is to be written.
pub(super) fn give_to_group(path: &Path, group: i64, read_only: bool) -> Result<()> {
    let group = u32::try_from(group).map_err(|_| Error::Pod(format!("fsGroup {group} is out of range")))?;
    let meta = fs::symlink_metadata(path).map_err(|error| Error::io("look at", path, error))?;
    lchown(path, None, Some(group)).map_err(|error| Error::io("change the group of", path, error))?;
    if meta.file_type().is_symlink() {
        return Ok(());
    }
    let mut mode = meta.mode() | if read_only { 0o440 } else { 0o660 };
    if meta.is_dir() {
        mode |= 0o2000 | 0o110;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7777))
        .map_err(|error| Error::io("change the mode of", path, error))?;
    if meta.is_dir() {
        for entry in fs::read_dir(path).map_err(|error| Error::io("read", path, error))?.flatten() {
            give_to_group(&entry.path(), group.into(), read_only)?;
        }
    }
    Ok(())
}
