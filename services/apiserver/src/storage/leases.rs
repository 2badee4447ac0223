//! Leases of the store, for values that expire. One lease serves many values that are written within a while.

use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout_at};
use trireme_proto::etcdserverpb::LeaseGrantRequest;

use super::Client;
use crate::error::Error;

/// How many values share a lease at most.
const SHARED_BY: u32 = 1000;

/// Hands out leases of one lifetime.
pub struct Leases {
    ttl: Duration,
    current: Mutex<Current>,
}

#[derive(Default)]
struct Current {
    id: i64,
    used: u32,
    until: Option<Instant>,
}

// === impl Leases ===

impl Leases {
    /// Leases that live at least `ttl`.
    pub fn new(ttl: Duration) -> Self {
        Self { ttl, current: Mutex::default() }
    }

    /// The current lease alone. Whoever has it may be asking the store for another: nobody waits for that beyond its own
    /// deadline.
    async fn hold(&self, deadline: Instant) -> Result<MutexGuard<'_, Current>, Error> {
        let held = timeout_at(deadline, self.current.lock()).await;
        held.map_err(|_| Error::StoreTimeout("no lease for a value that expires".to_owned()))
    }

    /// A lease for one more value.
    pub async fn take(&self, client: &Client, deadline: Instant) -> Result<i64, Error> {
        let mut current = self.hold(deadline).await?;
        let now = Instant::now();
        if current.used < SHARED_BY && current.until.is_some_and(|until| now < until) {
            current.used += 1;
            return Ok(current.id);
        }
        // Shared for a twentieth of its life, at most a minute; it lives that much longer.
        let shared = (self.ttl / 20).min(Duration::from_secs(60));
        let request = LeaseGrantRequest { ttl: (self.ttl + shared).as_secs().max(1) as i64, id: 0 };
        let granted =
            client.call(deadline, |mut member| async move { member.lease.lease_grant(request).await }).await?.answer;
        *current = Current { id: granted.id, used: 1, until: Some(now + shared) };
        Ok(granted.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_waits_for_a_slow_grant_waits_until_its_deadline() {
        let leases = Leases::new(Duration::from_secs(3600));
        let slow = leases.hold(Instant::now()).await.unwrap();
        let waiting = leases.hold(Instant::now() + Duration::from_millis(20));
        let waited = tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap();
        assert!(matches!(waited, Err(Error::StoreTimeout(_))));
        drop(slow);
        drop(leases.hold(Instant::now()).await.unwrap());
    }
}
