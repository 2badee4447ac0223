//! Whose files they are.

use crate::error::{Error, Result};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown};
use std::path::Path;

/// The folder itself may be used by whoever the container runs as. What a group was given of it stays.
pub(super) fn open_to_all(path: &Path) -> Result<()> {
    let mode = fs::metadata(path).map_err(|error| Error::io("look at", path, error))?.mode();
    if mode & 0o777 == 0o777 {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7777 | 0o777))
        .map_err(|error| Error::io("change the mode of", path, error))
}

/// The mode of a file that a group may read besides.
pub(super) fn with_group(mode: u32, group: Option<u32>) -> u32 {
    if group.is_some() { mode | 0o440 } else { mode }
}

/// Gives all below `path` to a group, if there is one, that may then read it, and write it if it is to be written.
pub(super) fn give_to_group(path: &Path, group: Option<u32>, read_only: bool) -> Result<()> {
    let Some(group) = group else { return Ok(()) };
    let meta = fs::symlink_metadata(path).map_err(|error| Error::io("look at", path, error))?;
    lchown(path, None, Some(group)).map_err(|error| Error::io("change the group of", path, error))?;
    if meta.file_type().is_symlink() {
        return Ok(());
    }
    let mut mode = with_group(meta.mode(), Some(group)) | if read_only { 0 } else { 0o660 };
    if meta.is_dir() {
        mode |= 0o2000 | 0o110;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7777))
        .map_err(|error| Error::io("change the mode of", path, error))?;
    if meta.is_dir() {
        for entry in fs::read_dir(path).map_err(|error| Error::io("read", path, error))?.flatten() {
            give_to_group(&entry.path(), Some(group), read_only)?;
        }
    }
    Ok(())
}
