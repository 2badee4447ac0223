//! The seam of time. Everything here that waits or stamps asks a [`Clock`]; in a test tokio's time is paused and the
//! wall clock follows it, so hours pass in milliseconds and nothing depends on the machine's speed.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// Monotonic time, wall time and waiting.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    anchor: Option<(Instant, Timestamp)>,
}

impl Clock {
    /// The machine's time.
    #[must_use]
    pub fn system() -> Self {
        Self { anchor: None }
    }

    /// A wall clock that starts at `wall` and follows tokio's (possibly paused) time.
    #[must_use]
    pub fn starting_at(wall: Timestamp) -> Self {
        Self { anchor: Some((Instant::now(), wall)) }
    }

    /// Monotonic time: for durations, never for what is written down.
    #[must_use]
    pub fn monotonic(&self) -> Instant {
        Instant::now()
    }

    /// Wall time: for what is written down.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match self.anchor {
            None => Timestamp::now(),
            Some((start, wall)) => {
                let passed = jiff::SignedDuration::try_from(start.elapsed()).unwrap_or_default();
                wall.checked_add(passed).unwrap_or(wall)
            }
        }
    }

    /// Wall time as Kubernetes writes it in `metadata`: whole seconds.
    #[must_use]
    pub fn now_seconds(&self) -> Timestamp {
        let now = self.now();
        Timestamp::from_second(now.as_second()).unwrap_or(now)
    }

    /// Waits.
    pub async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    /// Time from `earlier` until now, zero if it lies ahead.
    #[must_use]
    pub fn since(&self, earlier: Timestamp) -> Duration {
        Duration::try_from(self.now().duration_since(earlier)).unwrap_or_default()
    }
}
