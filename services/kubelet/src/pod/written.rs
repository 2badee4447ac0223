//! How far the API server has what a Pod's worker reported.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Shared by a worker, which sends reports, and the reporter, which writes them. Reports of one Pod are numbered; one
/// that replaced another settles that too.
#[derive(Debug, Clone, Default)]
pub struct Written(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    sent: AtomicU64,
    settled: AtomicU64,
    revision: AtomicI64,
}

impl Written {
    /// The number of a report that is about to be sent.
    pub fn next(&self) -> u64 {
        self.0.sent.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Nothing more becomes of this report: it was written at a revision, or it never will be.
    pub fn settle(&self, number: u64, revision: Option<i64>) {
        self.0.revision.fetch_max(revision.unwrap_or_default(), Ordering::Relaxed);
        self.0.settled.fetch_max(number, Ordering::Release);
    }

    /// Whether an object of this revision has all that was reported, so that what it says otherwise somebody else wrote.
    pub fn is_in(&self, revision: i64) -> bool {
        let settled = self.0.settled.load(Ordering::Acquire);
        settled >= self.0.sent.load(Ordering::Relaxed) && revision >= self.0.revision.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_its_way_is_in_no_revision() {
        let written = Written::default();
        assert!(written.is_in(5), "nothing was reported");
        let (first, second) = (written.next(), written.next());
        assert!(!written.is_in(5));
        written.settle(first, Some(7));
        assert!(!written.is_in(8), "the second is on its way");
        written.settle(second, Some(9));
        assert_eq!([written.is_in(8), written.is_in(9)], [false, true]);
        // Refused: what stands there is all there will be.
        let third = written.next();
        written.settle(third, None);
        assert!(written.is_in(9));
    }

    #[test]
    fn a_report_settles_those_it_replaced() {
        let written = Written::default();
        written.next();
        written.settle(written.next(), Some(3));
        assert!(written.is_in(3));
    }
}
