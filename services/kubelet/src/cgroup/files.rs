//! Files and folders of cgroups.

use crate::error::{Error, Result};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// Where cgroups are mounted.
pub(super) const MOUNT: &str = "/sys/fs/cgroup";

/// Is /sys/fs/cgroup itself cgroup v2?
pub(super) fn is_unified() -> bool {
    nix::sys::statfs::statfs(MOUNT).is_ok_and(|stat| stat.filesystem_type() == nix::sys::statfs::CGROUP2_SUPER_MAGIC)
}

pub(super) fn make_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| Error::io("create the cgroup", path, error))
}

pub(super) fn read(path: &Path) -> String {
    fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
}

/// Writes a setting unless it is so already; controllers that are not there are no error.
pub(super) fn set(path: &Path, value: &str) -> Result<()> {
    if !path.exists() || read(path) == value {
        return Ok(());
    }
    fs::write(path, value).map_err(|error| Error::io("write", path, error))
}

/// Removes a cgroup and what is left below it.
pub(super) fn remove(path: &Path) -> Result<()> {
    for child in child_names(path) {
        remove(&path.join(child))?;
    }
    match fs::remove_dir(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other.map_err(|error| Error::io("remove the cgroup", path, error)),
    }
}

pub(super) fn child_names(path: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    let dirs = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    dirs.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}
