//! Waiting for a state, with a deadline.

use std::time::{Duration, Instant};

use anyhow::bail;

/// How often the state is looked at.
const INTERVAL: Duration = Duration::from_millis(50);

/// Looks until `look` gives something, at most `patience`; `Err` of `look` says why not yet.
///
/// # Errors
/// The last reason, when the deadline has passed.
pub fn until<T>(what: &str, patience: Duration, mut look: impl FnMut() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let deadline = Instant::now() + patience;
    loop {
        match look() {
            Ok(found) => return Ok(found),
            Err(reason) if Instant::now() >= deadline => {
                bail!("{what}: not within {} s: {reason:#}", patience.as_secs_f64())
            }
            Err(_) => std::thread::sleep(INTERVAL),
        }
    }
}
