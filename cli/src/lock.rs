//! One command at a time works on an instance, and one at a time shares out what the machine has once.

use std::fs::{self, File, TryLockError};
use std::path::Path;

use anyhow::Context as _;

/// A lock that is held until this is dropped, or the process ends however it does.
#[must_use]
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// Takes the lock of a folder, which is made if it is not there; waits for who holds it, saying so.
///
/// # Errors
/// The folder or the lock's file cannot be made.
pub(crate) fn take(folder: &Path) -> anyhow::Result<Lock> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let path = folder.join("lock");
    let file = File::create(&path).with_context(|| path.display().to_string())?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            eprintln!("another trireme works on {}: waiting for it", folder.display());
            file.lock().with_context(|| path.display().to_string())?;
        }
        Err(TryLockError::Error(error)) => return Err(error).with_context(|| path.display().to_string()),
    }
    Ok(Lock { _file: file })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, RecvTimeoutError};
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_second_waits_until_the_first_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let first = take(folder.path()).unwrap();
        let (sender, second) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| sender.send(take(folder.path()).map(drop)));
            assert_eq!(second.recv_timeout(Duration::from_millis(50)).err(), Some(RecvTimeoutError::Timeout));
            drop(first);
            second.recv_timeout(Duration::from_secs(60)).unwrap().unwrap();
        });
    }
}
