//! Waiting for a log file to grow. The file is looked at often, which costs nothing; the runtime is asked whether the
//! container still runs soon after the last line, as a container often ends with it, then ever more seldom.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;

/// How often the file is looked at.
const POLL: Duration = Duration::from_millis(100);
/// How long after a line the runtime is asked first, and how far apart it is asked at most.
const ASK: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// What woke the waiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Woken {
    /// The file may have changed.
    Changed,
    /// It is time to ask whether the container still runs.
    Ask,
}

/// Watches one file by its name.
pub(super) struct Watch {
    path: PathBuf,
    /// Which file, and how long it was.
    seen: Option<(u64, u64)>,
    /// When the runtime is to be asked, and the pause before that.
    ask: (Instant, Duration),
}

impl Watch {
    /// Watches from now on: the file is to be read to its end after this.
    pub(super) fn new(path: &Path) -> Self {
        Self { seen: look(path), path: path.to_owned(), ask: (Instant::now() + ASK.0, ASK.0) }
    }

    /// Waits until there is something to do.
    pub(super) async fn wait(&mut self) -> Woken {
        loop {
            let now = look(&self.path);
            if now != self.seen {
                self.seen = now;
                self.ask = (Instant::now() + ASK.0, ASK.0);
                return Woken::Changed;
            }
            let (due, pause) = self.ask;
            if Instant::now() >= due {
                let longer = (pause * 2).min(ASK.1);
                self.ask = (Instant::now() + longer, longer);
                return Woken::Ask;
            }
            tokio::time::sleep_until(due.min(Instant::now() + POLL)).await;
        }
    }
}

fn look(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|meta| (meta.ino(), meta.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[tokio::test]
    async fn silence_asks_ever_more_seldom_and_what_is_written_wakes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        let mut file = std::fs::File::create(&path).unwrap();
        let mut watch = Watch::new(&path);
        let start = Instant::now();
        let mut asked = 0;
        while start.elapsed() < Duration::from_secs(2) {
            assert_eq!(watch.wait().await, Woken::Ask);
            asked += 1;
        }
        assert!((2..=5).contains(&asked), "{asked} times in two seconds");
        file.write_all(b"x").unwrap();
        assert_eq!(watch.wait().await, Woken::Changed);
        let start = Instant::now();
        assert_eq!(watch.wait().await, Woken::Ask);
        assert!(start.elapsed() <= Duration::from_millis(1000), "it may have been its last line");
        std::fs::rename(&path, dir.path().join("0.log.1")).unwrap();
        assert_eq!(watch.wait().await, Woken::Changed, "rotated");
        std::fs::write(&path, "").unwrap();
        assert_eq!(watch.wait().await, Woken::Changed, "a new one");
    }
}
