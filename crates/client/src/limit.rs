//! `--kube-api-qps` and `--kube-api-burst`: a bucket of tokens.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Lets so many through a second, and a burst at once.
#[derive(Debug)]
pub(crate) struct Limiter {
    interval: Duration,
    burst: u32,
    /// When the bucket would be full if nothing more came; it lies ahead by an interval for each token that is out.
    full_at: Mutex<Option<Instant>>,
}

impl Limiter {
    pub(crate) fn new(per_second: f64, burst: u32) -> Self {
        Self {
            interval: Duration::from_secs_f64(1.0 / per_second.max(0.001)),
            burst: burst.max(1),
            full_at: Mutex::new(None),
        }
    }

    /// Waits for a token.
    pub(crate) async fn acquire(&self) {
        let until = self.take(Instant::now());
        tokio::time::sleep_until(until).await;
    }

    fn take(&self, now: Instant) -> Instant {
        let mut full_at = self.full_at.lock();
        let after = full_at.map_or(now, |at| at.max(now)) + self.interval;
        *full_at = Some(after);
        after.checked_sub(self.interval * self.burst).map_or(now, |at| at.max(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_goes_at_once_and_the_rest_by_rate() {
        let limiter = Limiter::new(10.0, 5);
        let start = Instant::now();
        for _ in 0..5 {
            limiter.acquire().await;
        }
        assert!(start.elapsed() < Duration::from_millis(2));
        for _ in 0..10 {
            limiter.acquire().await;
        }
        let took = start.elapsed();
        assert!(took >= Duration::from_millis(990) && took < Duration::from_millis(1100), "{took:?}");
    }
}
