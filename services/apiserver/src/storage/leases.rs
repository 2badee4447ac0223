//! Leases of the store, for values that expire. One lease serves many values that are written within a while.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;
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

    /// A lease for one more value.
    pub async fn take(&self, client: &Client, deadline: Instant) -> Result<i64, Error> {
        let mut current = self.current.lock().await;
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
