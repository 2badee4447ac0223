//! When a silent holder is taken for gone. Pure: it is told when something was read and what it was.

use std::time::Duration;

use tokio::time::Instant;

/// Watches one Lease through the eyes of another worker.
#[derive(Debug, Default)]
pub(super) struct Silence {
    seen: Option<Seen>,
}

#[derive(Debug)]
struct Seen {
    holder: String,
    /// Revision of the holder's Lease; 0: it has none.
    revision: i64,
    unchanged_since: Instant,
    last_read: Instant,
}

impl Silence {
    /// Notes a read that was *asked for* at `asked` and answered at `answered`; says for how long the holder was silent.
    pub(super) fn read(
        &mut self,
        holder: &str,
        revision: i64,
        asked: Instant,
        answered: Instant,
        duration: Duration,
    ) -> Duration {
        let steady = self.seen.as_ref().is_some_and(|seen| {
            seen.holder == holder
                && seen.revision == revision
                && answered.saturating_duration_since(seen.last_read) <= duration / 4
        });
        match &mut self.seen {
            Some(seen) if steady => {
                seen.last_read = answered;
                // What was read was true at some time after it was asked for.
                asked.saturating_duration_since(seen.unchanged_since)
            }
            _ => {
                self.seen =
                    Some(Seen { holder: holder.to_owned(), revision, unchanged_since: answered, last_read: answered });
                Duration::ZERO
            }
        }
    }

    /// Starts anew.
    pub(super) fn reset(&mut self) {
        self.seen = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DURATION: Duration = Duration::from_secs(8);

    fn at(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn a_holder_that_renews_is_never_silent() {
        let (start, mut silence) = (Instant::now(), Silence::default());
        for second in 0..20 {
            let now = at(start, second);
            let silent = silence.read("a", i64::try_from(second / 2).unwrap() + 1, now, now, DURATION);
            assert!(silent <= Duration::from_secs(2));
        }
    }

    #[test]
    fn silence_counts_over_close_reads() {
        let (start, mut silence) = (Instant::now(), Silence::default());
        let silent: Vec<_> =
            (0..10).map(|s| silence.read("a", 7, at(start, s), at(start, s), DURATION).as_secs()).collect();
        assert_eq!(silent, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn a_frozen_reader_counts_anew() {
        let (start, mut silence) = (Instant::now(), Silence::default());
        silence.read("a", 7, start, start, DURATION);
        let thawed = at(start, 3600);
        assert_eq!(silence.read("a", 7, thawed, thawed, DURATION), Duration::ZERO);
    }

    #[test]
    fn a_slow_answer_counts_from_its_question() {
        let (start, mut silence) = (Instant::now(), Silence::default());
        silence.read("a", 7, start, start, DURATION);
        assert_eq!(silence.read("a", 7, at(start, 1), at(start, 2), DURATION), Duration::from_secs(1));
    }

    #[test]
    fn another_holder_or_another_lease_counts_anew() {
        let (start, mut silence) = (Instant::now(), Silence::default());
        silence.read("a", 7, start, start, DURATION);
        silence.read("a", 7, at(start, 2), at(start, 2), DURATION);
        assert_eq!(silence.read("b", 7, at(start, 3), at(start, 3), DURATION), Duration::ZERO);
        assert_eq!(silence.read("b", 8, at(start, 4), at(start, 4), DURATION), Duration::ZERO);
    }
}
