//! Waiting longer after each failure.

use std::time::Duration;

/// Doubles from a first to a longest wait; each wait is spread by up to a quarter, so that many do not come at once.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl Backoff {
    /// A back-off that has not failed yet.
    #[must_use]
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, failures: 0 }
    }

    /// How long to wait after one more failure.
    pub fn wait(&mut self) -> Duration {
        let wait = exponential(self.first, self.longest, self.failures);
        self.failures = self.failures.saturating_add(1);
        wait.mul_f64(rand::random_range(1.0..1.25))
    }

    /// It worked.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

/// `first` doubled `failures` times, at most `longest`.
#[must_use]
pub fn exponential(first: Duration, longest: Duration, failures: u32) -> Duration {
    first.checked_mul(2u32.saturating_pow(failures.min(31))).map_or(longest, |wait| wait.min(longest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_longest() {
        let (first, longest) = (Duration::from_millis(5), Duration::from_secs(1000));
        assert_eq!(exponential(first, longest, 0), first);
        assert_eq!(exponential(first, longest, 3), Duration::from_millis(40));
        assert_eq!(exponential(first, longest, 60), longest);
    }
}
