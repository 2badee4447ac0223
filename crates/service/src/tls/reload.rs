//! A value made from files, made again when they change.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use crate::Error;

/// How old what we know of the files may be.
const FRESH: Duration = Duration::from_secs(1);

/// A value made from files. Clones share it.
pub(super) struct Reloading<T> {
    value: ArcSwap<T>,
    make: Box<dyn Fn() -> Result<T, Error> + Send + Sync>,
    files: Vec<PathBuf>,
    seen: Mutex<Seen>,
}

struct Seen {
    at: Instant,
    stamps: Vec<Option<(SystemTime, u64)>>,
}

impl<T> Reloading<T> {
    /// Makes the value from `files`; an empty list means that it never changes.
    pub(super) fn new(
        files: Vec<PathBuf>,
        make: impl Fn() -> Result<T, Error> + Send + Sync + 'static,
    ) -> Result<Arc<Self>, Error> {
        // The stamps are older than the value, so a change in between is seen as one.
        let seen = Mutex::new(Seen { at: Instant::now(), stamps: stamps(&files) });
        let value = ArcSwap::from_pointee(make()?);
        Ok(Arc::new(Self { value, make: Box::new(make), files, seen }))
    }

    /// The value of today's files; the last good one while they are not.
    pub(super) fn get(&self) -> Arc<T> {
        if !self.files.is_empty() {
            self.refresh();
        }
        self.value.load_full()
    }

    fn refresh(&self) {
        // One looks at the files, the others take what there is.
        let Some(mut seen) = self.seen.try_lock() else { return };
        if seen.at.elapsed() < FRESH {
            return;
        }
        seen.at = Instant::now();
        let stamps = stamps(&self.files);
        if stamps == seen.stamps {
            return;
        }
        match (self.make)() {
            Ok(value) => {
                tracing::info!(file = %self.files[0].display(), "certificate files changed and are read again");
                self.value.store(Arc::new(value));
                seen.stamps = stamps;
            }
            // Half-written perhaps: the stamps are left, so that the next look tries again.
            Err(error) => tracing::warn!(%error, "certificate files changed but can't be used; the old ones stay"),
        }
    }
}

fn stamps(files: &[PathBuf]) -> Vec<Option<(SystemTime, u64)>> {
    files
        .iter()
        .map(|file| {
            let meta = std::fs::metadata(file).ok()?;
            Some((meta.modified().ok()?, meta.len()))
        })
        .collect()
}

/// Reads a file, with its name in the error.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })
}

/// Where inline data came from, in error messages.
pub(super) fn inline() -> PathBuf {
    PathBuf::from("<inline>")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::sync::atomic::{AtomicUsize, Ordering};

    use trireme_testkit::poll;

    use super::*;

    #[tokio::test]
    async fn half_written_files_leave_the_last_good_value() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("number");
        std::fs::write(&file, "1").unwrap();
        let read = Arc::new(AtomicUsize::new(0));
        let (source, count) = (file.clone(), Arc::clone(&read));
        let number = Reloading::new(vec![file.clone()], move || {
            count.fetch_add(1, Ordering::SeqCst);
            let text = std::fs::read_to_string(&source).unwrap();
            text.parse::<u32>().map_err(|_| Error::Certificate(text.clone()))
        });
        let number = number.unwrap();
        std::fs::write(&file, "half").unwrap();
        // It was looked at, and is looked at again though it did not change: its stamps tell too little.
        for attempt in 2..4 {
            poll::holds("another look", || *number.get() == 1 && read.load(Ordering::SeqCst) == attempt).await.unwrap();
        }
        assert_eq!(*number.get(), 1);
        std::fs::write(&file, "2").unwrap();
        poll::holds("the new value", || *number.get() == 2).await.unwrap();
    }
}
