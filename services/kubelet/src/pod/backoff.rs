//! Ever longer pauses, per container and per image.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use std::collections::HashMap;
use std::time::Duration;

const FIRST: Duration = Duration::from_secs(10);
/// The longest pause (upstream's `maxContainerBackOff`).
pub const LONGEST: Duration = Duration::from_secs(300);

#[derive(Debug, Clone, Copy)]
struct Entry {
    pause: Duration,
    since: Timestamp,
}

/// Pauses by key.
#[derive(Debug, Clone, Default)]
pub struct Backoffs {
    entries: HashMap<String, Entry>,
}

/// Not yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotYet {
    /// The whole pause.
    pub pause: Duration,
    /// What is left of it.
    pub left: Duration,
}

impl Backoffs {
    /// Is the pause that began at `from` still running?
    pub fn check(&self, key: &str, from: Timestamp, now: Timestamp) -> Result<(), NotYet> {
        let Some(entry) = self.entries.get(key).filter(|entry| !entry.is_stale(from)) else { return Ok(()) };
        let passed = Duration::try_from(now.duration_since(from)).unwrap_or_default();
        match entry.pause.checked_sub(passed).filter(|left| !left.is_zero()) {
            Some(left) => Err(NotYet { pause: entry.pause, left }),
            None => Ok(()),
        }
    }

    /// As [`Backoffs::check`], from the last failure on.
    pub fn check_since_failure(&self, key: &str, now: Timestamp) -> Result<(), NotYet> {
        match self.entries.get(key) {
            Some(entry) => self.check(key, entry.since, now),
            None => Ok(()),
        }
    }

    /// Another failure: the next pause is twice as long.
    pub fn next(&mut self, key: &str, now: Timestamp) {
        let entry = self.entries.get(key).filter(|entry| !entry.is_stale(now));
        let pause = entry.map_or(FIRST, |entry| (entry.pause * 2).min(LONGEST));
        self.entries.insert(key.to_owned(), Entry { pause, since: now });
    }

    /// All is well.
    pub fn reset(&mut self, key: &str) {
        self.entries.remove(key);
    }
}

impl Entry {
    /// It ran well for so long that the next failure is the first one again.
    fn is_stale(&self, at: Timestamp) -> bool {
        at.duration_since(self.since) > SignedDuration::try_from(LONGEST * 2).unwrap_or(SignedDuration::MAX)
    }
}

/// As Go writes durations: `10s`, `1m20s`, `5m0s`, `120ms`, `1.5s`.
pub fn go_duration(duration: Duration) -> String {
    let trim = |number: f64| {
        let text = format!("{number:.9}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    if duration.is_zero() {
        return "0s".into();
    }
    if duration < Duration::from_secs(1) {
        return match duration.as_nanos() {
            nanos @ 0..1_000 => format!("{nanos}ns"),
            nanos @ 1_000..1_000_000 => format!("{}µs", trim(nanos as f64 / 1e3)),
            nanos => format!("{}ms", trim(nanos as f64 / 1e6)),
        };
    }
    let (hours, minutes) = (duration.as_secs() / 3600, duration.as_secs() / 60 % 60);
    let seconds = trim((duration.as_secs() % 60) as f64 + f64::from(duration.subsec_nanos()) / 1e9);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m{seconds}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    #[test]
    fn pauses_double_and_are_forgotten() {
        let mut backoffs = Backoffs::default();
        assert!(backoffs.check("a", at(0), at(0)).is_ok(), "the first restart is at once");
        backoffs.next("a", at(0));
        let not_yet = backoffs.check("a", at(5), at(7)).unwrap_err();
        assert_eq!((not_yet.pause.as_secs(), not_yet.left.as_secs()), (10, 8));
        assert!(backoffs.check("a", at(5), at(15)).is_ok());
        for _ in 0..9 {
            backoffs.next("a", at(20));
        }
        assert_eq!(backoffs.check("a", at(20), at(20)).unwrap_err().pause, LONGEST);
        assert!(backoffs.check("a", at(700), at(700)).is_ok(), "it ran well for ten minutes");
        backoffs.next("a", at(700));
        assert_eq!(backoffs.check("a", at(700), at(700)).unwrap_err().pause, FIRST);
    }

    #[test]
    fn durations_as_go_writes_them() {
        for (millis, text) in [
            (10_000, "10s"),
            (80_000, "1m20s"),
            (300_000, "5m0s"),
            (3_600_000, "1h0m0s"),
            (120, "120ms"),
            (1_500, "1.5s"),
        ] {
            assert_eq!(go_duration(Duration::from_millis(millis)), text);
        }
    }
}
