//! When a snapshot is due, and what of the log is no longer needed then.
use std::time::Duration;

use super::{Inner, Node};

/// Bytes and number of log entries after which a snapshot is due, at least.
const SNAPSHOT_BYTES: usize = 4 << 20;
const SNAPSHOT_ENTRIES: usize = 50_000;
/// Bytes and number of entries kept though they are in a snapshot, for members that are a little behind.
const KEPT_BYTES: usize = 1 << 20;
const KEPT_ENTRIES: usize = 1000;

impl Node {
    /// Has a snapshot made when the log after the last one has grown larger than the state, and drops what is in one.
    pub(super) async fn keep_log_short(self) {
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        let Inner { log, raft, .. } = &*self.0;
        loop {
            ticks.tick().await;
            let (saved, purged) = {
                let metrics = raft.metrics();
                let m = metrics.borrow();
                (m.snapshot.map_or(0, |id| id.index), m.purged.map_or(0, |id| id.index))
            };
            let (bytes, entries) = log.size_after(saved);
            if bytes > SNAPSHOT_BYTES.max(self.view().state.size()) || entries > SNAPSHOT_ENTRIES {
                if let Err(error) = raft.trigger().snapshot().await {
                    tracing::warn!(%error, "no snapshot was made");
                }
            } else if let Some(upto) = log.purgeable(KEPT_BYTES, KEPT_ENTRIES).map(|upto| upto.min(saved))
                && upto > purged
                && let Err(error) = raft.trigger().purge_log(upto).await
            {
                tracing::warn!(%error, "the log was not cut");
            }
        }
    }
}
