//! Volumes in memory.

use crate::error::{Error, Result};
use nix::mount::{MntFlags, MsFlags};
use std::path::{Path, PathBuf};

/// Mounts a tmpfs there unless one is; says whether it did.
pub(super) fn mount(path: &Path, limit: Option<i64>) -> Result<bool> {
    if is_mount(path)? {
        return Ok(false);
    }
    let options = match limit.filter(|bytes| *bytes > 0) {
        Some(bytes) => format!("mode=0777,size={bytes}"),
        None => "mode=0777".to_owned(),
    };
    nix::mount::mount(Some("tmpfs"), path, Some("tmpfs"), MsFlags::empty(), Some(options.as_str()))
        .map_err(|error| Error::io("mount a tmpfs at", path, error.into()))?;
    Ok(true)
}

/// Unmounts all that is mounted at or below `dir`, deepest first.
pub(super) fn unmount_below(dir: &Path) -> Result<()> {
    let mut below: Vec<PathBuf> = mount_points()?.into_iter().filter(|point| point.starts_with(dir)).collect();
    below.sort_by_key(|point| std::cmp::Reverse(point.components().count()));
    for point in below {
        nix::mount::umount2(&point, MntFlags::MNT_DETACH)
            .map_err(|error| Error::io("unmount", &point, error.into()))?;
    }
    Ok(())
}

fn is_mount(path: &Path) -> Result<bool> {
    let path = path.canonicalize().map_err(|error| Error::io("resolve", path, error))?;
    Ok(mount_points()?.contains(&path))
}

fn mount_points() -> Result<Vec<PathBuf>> {
    let file = Path::new("/proc/self/mountinfo");
    let text = std::fs::read_to_string(file).map_err(|error| Error::io("read", file, error))?;
    Ok(text.lines().filter_map(|line| line.split(' ').nth(4)).map(unescape).collect())
}

/// mountinfo writes blanks and the like as octal.
fn unescape(point: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(point.len());
    let mut rest = point.as_bytes();
    while let [first, tail @ ..] = rest {
        let octal = (*first == b'\\').then(|| tail.get(..3)).flatten();
        match octal.and_then(|digits| std::str::from_utf8(digits).ok()).and_then(|d| u8::from_str_radix(d, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    use std::os::unix::ffi::OsStringExt as _;
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mountinfo_escapes() {
        assert_eq!(unescape("/a\\040b\\134c"), PathBuf::from("/a b\\c"));
    }
}
