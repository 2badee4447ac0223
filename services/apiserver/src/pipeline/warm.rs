//! Start-up: what comes before the server knows enough to judge it waits, instead of being refused.
//!
//! A server that has just started knows no role, no Namespace and no ServiceAccount: it would turn callers away that it
//! serves a moment later. So a request for objects waits until the watch cache is filled, and one that would be refused
//! is judged again once the default roles are there. Both waits are bounded; who waited in vain for the roles ends that
//! wait for all others too.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use trireme_machinery::status::Status;

use super::engine::Engine;

/// How long a request waits, as long as upstream's admission plugins wait for their informers.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether the default roles were looked after once.
pub(super) struct Roles {
    there: watch::Sender<bool>,
}

impl Default for Roles {
    fn default() -> Self {
        Self { there: watch::Sender::new(false) }
    }
}

impl Engine {
    /// The default roles are there: refusals are final from now on.
    pub fn roles_are_there(&self) {
        self.roles.there.send_if_modified(|there| !std::mem::replace(there, true));
    }

    /// Waits until the watch cache is filled.
    pub(crate) async fn filled(&self, deadline: Instant) -> Result<(), Status> {
        if self.cache.head().synced || self.cache.reached(0, deadline.min(Instant::now() + PATIENCE)).await {
            return Ok(());
        }
        Err(Status::too_many_requests("the API server's cache is not filled yet", 1))
    }

    /// Whether a refusal is worth a second judgement: the server was still starting, and is not any more.
    pub(crate) async fn warmed(&self, refusal: &Status, deadline: Instant) -> bool {
        let mut there = self.roles.there.subscribe();
        if !matches!(refusal.code, 401 | 403) || *there.borrow_and_update() {
            return false;
        }
        let patience = Instant::now() + PATIENCE;
        if timeout_at(deadline.min(patience), there.wait_for(|there| *there)).await.is_ok() {
            return self.caught_up(deadline).await;
        }
        if Instant::now() >= patience {
            tracing::warn!("the default roles are not there yet; nobody waits for them any more");
            self.roles_are_there();
        }
        false
    }

    /// Whether the cache has what was written before the question.
    async fn caught_up(&self, deadline: Instant) -> bool {
        match self.reads.get(deadline).await {
            Ok(revision) => self.cache.reached(revision, deadline.min(Instant::now() + PATIENCE)).await,
            Err(_) => false,
        }
    }
}
