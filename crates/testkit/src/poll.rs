//! Waiting for a state, with a deadline.

use std::time::{Duration, Instant};

use anyhow::bail;

/// How long a state may take whose time is not what a test is about: generous, for a machine that has other work too.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How often the state is looked at.
const INTERVAL: Duration = Duration::from_millis(50);
/// The same where a look costs next to nothing.
const SHORT_INTERVAL: Duration = Duration::from_millis(10);

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

/// Inside a runtime: looks until `look` finds something, at most `patience`.
///
/// # Errors
/// The deadline has passed.
pub async fn found<T, F>(what: &str, patience: Duration, mut look: impl FnMut() -> F) -> anyhow::Result<T>
where
    F: Future<Output = Option<T>>,
{
    let deadline = Instant::now() + patience;
    loop {
        if let Some(found) = look().await {
            return Ok(found);
        }
        if Instant::now() >= deadline {
            bail!("{what}: not within {} s", patience.as_secs_f64());
        }
        tokio::time::sleep(SHORT_INTERVAL).await;
    }
}

/// Inside a runtime: looks until it is so, at most [`PATIENCE`].
///
/// # Errors
/// The deadline has passed.
pub async fn holds(what: &str, mut so: impl FnMut() -> bool) -> anyhow::Result<()> {
    found(what, PATIENCE, || std::future::ready(so().then_some(()))).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_that_comes_is_found_and_one_that_does_not_is_told_with_its_last_reason() {
        let mut looks = 0;
        let found = until("three", PATIENCE, || {
            looks += 1;
            if looks == 3 { Ok(looks) } else { bail!("only {looks}") }
        });
        assert_eq!(found.ok(), Some(3));
        let never = until::<()>("never", Duration::ZERO, || bail!("it is not")).map_err(|error| error.to_string());
        assert_eq!(never, Err("never: not within 0 s: it is not".to_owned()));
    }

    #[tokio::test]
    async fn inside_a_runtime_too() {
        let mut looks = 0;
        let came = holds("three", || {
            looks += 1;
            looks == 3
        });
        assert!(came.await.is_ok());
        let never = found::<(), _>("never", Duration::ZERO, || async { None }).await;
        assert_eq!(never.map_err(|error| error.to_string()), Err("never: not within 0 s".to_owned()));
    }
}
