//! Volumes in memory.

use super::mounted;
use crate::error::{Error, Result};
use nix::mount::MsFlags;
use std::path::Path;

/// Mounts a tmpfs there unless one is; says whether it did. All may use it, and a group has what is made in it.
pub(super) fn mount(path: &Path, limit: Option<i64>, group: Option<u32>) -> Result<bool> {
    if mounted::is_mount(path)? {
        return Ok(false);
    }
    // With the mount, so that it stands as it is to be or not at all.
    let mut options = match group {
        Some(group) => format!("mode=02777,gid={group}"),
        None => "mode=0777".to_owned(),
    };
    if let Some(bytes) = limit.filter(|bytes| *bytes > 0) {
        options.push_str(&format!(",size={bytes}"));
    }
    nix::mount::mount(Some("tmpfs"), path, Some("tmpfs"), MsFlags::empty(), Some(options.as_str()))
        .map_err(|error| Error::io("mount a tmpfs at", path, error.into()))?;
    Ok(true)
}
