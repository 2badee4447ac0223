//! A folder or file inside a volume, mounted instead of the whole volume.
//!
//! The path inside the volume is under the Pod's control: a container may put a link there that leads out of the
//! volume. So every part is opened without following links, and what was opened (not its name) is bind mounted into
//! the Pod's folder before the runtime gets to see it.

use crate::error::{Error, Result};
use nix::fcntl::{AtFlags, OFlag};
use nix::mount::MsFlags;
use nix::sys::stat::Mode;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::{Component, Path, PathBuf};

/// Opens `sub` below `volume`, making folders that are missing, and gives the place where it is mounted.
pub(super) fn prepare(volume: &Path, sub: &str, place: &Path) -> Result<PathBuf> {
    let parts = parts(sub)?;
    let opened = open(volume, &parts).map_err(|errno| Error::io("open subPath in", volume, errno.into()))?;
    let stat = nix::sys::stat::fstat(opened.as_fd()).map_err(|errno| Error::io("look at", volume, errno.into()))?;
    let is_dir = stat.st_mode & libc_dir() == libc_dir();
    if is_mounted(place, &stat) {
        return Ok(place.to_owned());
    }
    if let Some(parent) = place.parent() {
        std::fs::create_dir_all(parent).map_err(|error| Error::io("create", parent, error))?;
    }
    let made = if is_dir { std::fs::create_dir_all(place) } else { std::fs::write(place, "") };
    made.map_err(|error| Error::io("create", place, error))?;
    let source = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()));
    nix::mount::mount(Some(&source), place, None::<&str>, MsFlags::MS_BIND, None::<&str>)
        .map_err(|errno| Error::io("mount", place, errno.into()))?;
    Ok(place.to_owned())
}

const fn libc_dir() -> u32 {
    0o040_000
}

fn is_mounted(place: &Path, stat: &nix::sys::stat::FileStat) -> bool {
    nix::sys::stat::stat(place).is_ok_and(|there| there.st_ino == stat.st_ino && there.st_dev == stat.st_dev)
}

fn parts(sub: &str) -> Result<Vec<&std::ffi::OsStr>> {
    if Path::new(sub).is_absolute() {
        return Err(Error::Pod(format!("error SubPath `{sub}` must not be an absolute path")));
    }
    let mut parts = Vec::new();
    for part in Path::new(sub).components() {
        match part {
            Component::Normal(part) => parts.push(part),
            Component::CurDir => {}
            _ => return Err(Error::Pod(format!("unable to provision SubPath `{sub}`: must not contain '..'"))),
        }
    }
    Ok(parts)
}

fn open(volume: &Path, parts: &[&std::ffi::OsStr]) -> nix::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let mut at = nix::fcntl::open(volume, flags | OFlag::O_DIRECTORY, Mode::empty())?;
    let mode = nix::sys::stat::fstat(at.as_fd())?.st_mode & 0o7777;
    for part in parts {
        let inside = flags | OFlag::O_NOFOLLOW;
        at = match nix::fcntl::openat(at.as_fd(), *part, inside, Mode::empty()) {
            Err(nix::errno::Errno::ENOENT) => {
                nix::sys::stat::mkdirat(at.as_fd(), *part, Mode::from_bits_truncate(mode))?;
                let made = nix::fcntl::openat(at.as_fd(), *part, inside | OFlag::O_DIRECTORY, Mode::empty())?;
                // The umask took bits away; what was just made has one name only, so this is not a race.
                nix::sys::stat::fchmodat(
                    at.as_fd(),
                    *part,
                    Mode::from_bits_truncate(mode),
                    nix::sys::stat::FchmodatFlags::FollowSymlink,
                )?;
                made
            }
            other => other?,
        };
        let stat = nix::sys::stat::fstatat(at.as_fd(), "", AtFlags::AT_EMPTY_PATH)?;
        if stat.st_mode & 0o170_000 == 0o120_000 {
            return Err(nix::errno::Errno::ELOOP);
        }
    }
    Ok(at)
}
