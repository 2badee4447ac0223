//! A folder or file inside a volume, mounted instead of the whole volume.
//!
//! The path inside the volume is under the Pod's control: a container may put a link there that leads out of the
//! volume. So the kernel itself is asked to open it below the volume, following what links stay there (all files of a
//! ConfigMap are such links) and refusing those that leave. What was opened (not its name) is bind mounted into the
//! Pod's folder before the runtime gets to see it.

use super::mounted;
use crate::error::{Error, Result};
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag};
use nix::mount::MsFlags;
use nix::sys::stat::{FileStat, Mode};
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

/// Who renames all the time may keep the kernel from being sure, but not us from other work.
const TRIES: u32 = 1000;

/// Opens `sub` below `volume`, making folders that are missing, and gives the place where it is mounted.
pub(super) fn prepare(volume: &Path, sub: &str, place: &Path) -> Result<PathBuf> {
    let parts = parts(sub)?;
    let opened = open(volume, &parts).map_err(|errno| Error::io("open subPath in", volume, errno.into()))?;
    let stat = nix::sys::stat::fstat(opened.as_fd()).map_err(|errno| Error::io("look at", volume, errno.into()))?;
    if let Some(parent) = place.parent() {
        super::make_closed(parent)?;
    }
    if mounted::is_mount(place)? {
        if is_same(place, &stat) {
            return Ok(place.to_owned());
        }
        // Of the container's last start. Nothing may be done at the place before it is gone: it would be done to the
        // volume.
        mounted::unmount_below(place)?;
    }
    make_place(place, is_dir(&stat))?;
    let source = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()));
    nix::mount::mount(Some(&source), place, None::<&str>, MsFlags::MS_BIND, None::<&str>)
        .map_err(|errno| Error::io("mount", place, errno.into()))?;
    Ok(place.to_owned())
}

fn is_dir(stat: &FileStat) -> bool {
    stat.st_mode & 0o170_000 == 0o040_000
}

fn is_same(place: &Path, stat: &FileStat) -> bool {
    nix::sys::stat::lstat(place).is_ok_and(|there| there.st_ino == stat.st_ino && there.st_dev == stat.st_dev)
}

/// An empty folder or file to mount on: a file does for all that is no folder.
fn make_place(place: &Path, dir: bool) -> Result<()> {
    let make = || match dir {
        true => std::fs::DirBuilder::new().mode(0o750).create(place),
        false => std::fs::OpenOptions::new().write(true).create_new(true).mode(0o640).open(place).map(drop),
    };
    match make() {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        other => return other.map_err(|error| Error::io("create", place, error)),
    }
    let meta = std::fs::symlink_metadata(place).map_err(|error| Error::io("look at", place, error))?;
    if meta.is_dir() == dir {
        return Ok(());
    }
    // What the path leads to was of another kind at the last start.
    let removed = if meta.is_dir() { std::fs::remove_dir(place) } else { std::fs::remove_file(place) };
    removed.and_then(|()| make()).map_err(|error| Error::io("create", place, error))
}

fn parts(sub: &str) -> Result<Vec<&OsStr>> {
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

fn open(volume: &Path, parts: &[&OsStr]) -> nix::Result<OwnedFd> {
    let path = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let volume = nix::fcntl::open(volume, path, Mode::empty())?;
    if parts.is_empty() {
        return Ok(volume);
    }
    match below(volume.as_fd(), &parts.iter().collect::<PathBuf>(), path) {
        Err(Errno::ENOENT) => {}
        other => return other,
    }
    let mode = Mode::from_bits_truncate(nix::sys::stat::fstat(volume.as_fd())?.st_mode & 0o7777);
    let mut at = volume.try_clone().map_err(|_| Errno::EMFILE)?;
    let mut so_far = PathBuf::new();
    for part in parts {
        so_far.push(part);
        at = match below(volume.as_fd(), &so_far, path) {
            Err(Errno::ENOENT) => make(at.as_fd(), part, mode)?,
            other => other?,
        };
    }
    Ok(at)
}

fn below(volume: BorrowedFd<'_>, path: &Path, flags: OFlag) -> nix::Result<OwnedFd> {
    let how = OpenHow::new().flags(flags).resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    for _ in 0..TRIES {
        match nix::fcntl::openat2(volume, path, how) {
            // Something was renamed or mounted meanwhile, and the kernel could not be sure.
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            other => return other,
        }
    }
    Err(Errno::EAGAIN)
}

/// A folder that is missing. A link that leads nowhere is in its way.
fn make(parent: BorrowedFd<'_>, name: &OsStr, mode: Mode) -> nix::Result<OwnedFd> {
    nix::sys::stat::mkdirat(parent, name, mode)?;
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let made = nix::fcntl::openat(parent, name, flags, Mode::empty())?;
    // The umask took bits away.
    nix::sys::stat::fchmod(made.as_fd(), mode)?;
    Ok(made)
}
