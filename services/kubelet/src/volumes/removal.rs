//! Removing a Pod's folder, and nothing that is only mounted in it.
//!
//! Every folder is entered by way of the one above it, never across a mount and never through a link, so that what
//! somebody mounts there meanwhile is met with an error and not with its removal.

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::ffi::OsStr;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

/// So deep it goes with an open folder for each step. What lies deeper is lifted up to the top first: how deep that is
/// is for the Pod to say, how many files may be open is not.
const DEEP: usize = 32;

/// Removes `dir` with all that is in it.
pub(super) fn remove(dir: &Path) -> nix::Result<()> {
    let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) else { return Err(Errno::EINVAL) };
    let parent = nix::fcntl::open(parent, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
    let top = enter(parent.as_fd(), name)?;
    let mut lifted = 0;
    loop {
        let before = lifted;
        empty(&top, &top, DEEP, &mut lifted)?;
        if lifted == before {
            break;
        }
    }
    unlinkat(&parent, name, UnlinkatFlags::RemoveDir)
}

fn enter(parent: BorrowedFd<'_>, name: &OsStr) -> nix::Result<OwnedFd> {
    let how = OpenHow::new()
        .flags(OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_XDEV | ResolveFlag::RESOLVE_NO_SYMLINKS);
    loop {
        match openat2(parent, name, how) {
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            other => return other,
        }
    }
}

fn empty(dir: &OwnedFd, top: &OwnedFd, deep: usize, lifted: &mut u64) -> nix::Result<()> {
    let system = |error: std::io::Error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
    for entry in std::fs::read_dir(format!("/proc/self/fd/{}", dir.as_raw_fd())).map_err(system)? {
        let name = entry.map_err(system)?.file_name();
        let name = name.as_os_str();
        match unlinkat(dir, name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => {}
            // POSIX has it as EPERM.
            Err(Errno::EISDIR | Errno::EPERM) => remove_dir(dir, name, top, deep, lifted)?,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn remove_dir(dir: &OwnedFd, name: &OsStr, top: &OwnedFd, deep: usize, lifted: &mut u64) -> nix::Result<()> {
    match unlinkat(dir, name, UnlinkatFlags::RemoveDir) {
        Err(Errno::ENOTEMPTY | Errno::EEXIST) => {}
        Ok(()) | Err(Errno::ENOENT) => return Ok(()),
        Err(errno) => return Err(errno),
    }
    if deep == 0 {
        return lift(dir, name, top, lifted);
    }
    empty(&enter(dir.as_fd(), name)?, top, deep - 1, lifted)?;
    match unlinkat(dir, name, UnlinkatFlags::RemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        // Somebody still writes there: the next try has the rest.
        Err(errno) => Err(errno),
    }
}

fn lift(dir: &OwnedFd, name: &OsStr, top: &OwnedFd, lifted: &mut u64) -> nix::Result<()> {
    loop {
        *lifted += 1;
        let here = format!("..removed-{lifted}");
        match nix::fcntl::renameat(dir, name, top, here.as_str()) {
            // An earlier try left one there, or the Pod has one of that name.
            Err(Errno::EEXIST | Errno::ENOTEMPTY | Errno::ENOTDIR) => {}
            other => return other,
        }
    }
}
