//! How many requests are served at once.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use trireme_machinery::status::Status;

use super::Context;

/// Two pools, as upstream's `--max-requests-inflight` and `--max-mutating-requests-inflight`.
pub struct Limits {
    reading: Option<Arc<Semaphore>>,
    writing: Option<Arc<Semaphore>>,
}

// === impl Limits ===

impl Limits {
    /// Pools of these sizes; 0 is no limit.
    pub fn new(reading: usize, writing: usize) -> Self {
        let pool = |size: usize| (size > 0).then(|| Arc::new(Semaphore::new(size)));
        Self { reading: pool(reading), writing: pool(writing) }
    }

    /// A place for the request, or 429. Long requests and the cluster's masters need none.
    pub(crate) fn admit(&self, context: &Context) -> Result<Option<OwnedSemaphorePermit>, Status> {
        let pool = if context.info.writes() { &self.writing } else { &self.reading };
        let Some(pool) = pool else { return Ok(None) };
        if is_long(context) || !context.info.is_resource {
            return Ok(None);
        }
        match pool.clone().try_acquire_owned() {
            Ok(permit) => Ok(Some(permit)),
            Err(_) if context.user.is_privileged() => Ok(None),
            Err(_) => Err(Status::too_many_requests("Too many requests, please try again later.", 1)),
        }
    }
}

/// Requests that last as long as the client likes.
pub(crate) fn is_long(context: &Context) -> bool {
    let info = &context.info;
    info.verb == "watch" || matches!(info.subresource.as_str(), "log" | "exec" | "attach" | "portforward" | "proxy")
}
