//! What is mounted on the node at and below a folder.

use crate::error::{Error, Result};
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags};
use std::path::{Path, PathBuf};

/// Looks again this often: what is unmounted may have hidden something, or taken its peers with it.
const ROUNDS: u32 = 10;

/// Unmounts all that is mounted at or below `dir`, deepest first. Fails while anything is left there.
///
/// What is unmounted here must stay where it came from. A bind mount shares what is mounted below it with its source:
/// unless the two are parted first, the node's own mounts there would go too.
pub(super) fn unmount_below(dir: &Path) -> Result<()> {
    let dir = canonical(dir)?;
    let mut last = Errno::EBUSY;
    for _ in 0..ROUNDS {
        let mut below = below(&dir)?;
        if below.is_empty() {
            return Ok(());
        }
        for point in &below {
            // One that is hidden by another can't be reached; a later round finds it.
            let _ = nix::mount::mount(None::<&str>, point, None::<&str>, MsFlags::MS_PRIVATE, None::<&str>);
        }
        below.sort_by_key(|point| std::cmp::Reverse(point.components().count()));
        for point in below {
            if let Err(errno) = nix::mount::umount2(&point, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW) {
                last = errno;
            }
        }
    }
    match below(&dir)?.into_iter().next() {
        Some(point) => Err(Error::io("unmount", point, last.into())),
        None => Ok(()),
    }
}

/// Is something mounted just there?
pub(super) fn is_mount(path: &Path) -> Result<bool> {
    Ok(mount_points()?.contains(&canonical(path)?))
}

fn below(dir: &Path) -> Result<Vec<PathBuf>> {
    Ok(mount_points()?.into_iter().filter(|point| point.starts_with(dir)).collect())
}

/// As the kernel names it. The last part is not followed: it may be a mount whose file system answers no more.
fn canonical(path: &Path) -> Result<PathBuf> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(path.to_owned()) };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let parent = parent.canonicalize().map_err(|error| Error::io("resolve", parent, error))?;
    Ok(parent.join(name))
}

fn mount_points() -> Result<Vec<PathBuf>> {
    let file = Path::new("/proc/self/mountinfo");
    // Not as text: whoever mounts chooses the name.
    let all = std::fs::read(file).map_err(|error| Error::io("read", file, error))?;
    Ok(all
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4))
        .map(unescape)
        .collect())
}

/// mountinfo writes blanks and the like as octal.
fn unescape(point: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(point.len());
    let mut rest = point;
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
        assert_eq!(unescape(b"/a\\040b\\134c"), PathBuf::from("/a b\\c"));
    }
}
