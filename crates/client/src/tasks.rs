//! The tasks a component's client parts run in, and their end.
//!
//! They are tasks of the service: it supervises them, knows their names, and fails if one of them panics, because none of
//! these can be done without.

use std::borrow::Cow;
use std::future::Future;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use trireme_service::tasks::{self as service, OnPanic};

/// Starts tasks that end when the component shuts down.
#[derive(Debug, Clone)]
pub struct Tasks {
    service: service::Tasks,
}

impl From<service::Tasks> for Tasks {
    fn from(service: service::Tasks) -> Self {
        Self { service }
    }
}

impl Default for Tasks {
    fn default() -> Self {
        Self::new(CancellationToken::new())
    }
}

impl Tasks {
    /// Tasks of no service, which end with `token`. A service makes them of its own, or nobody would hear of a panic.
    #[must_use]
    pub fn new(token: CancellationToken) -> Self {
        service::Tasks::new(token).into()
    }

    /// Runs `future` until it ends or the component shuts down. If it panics the service can't go on: what others wait
    /// for would never come.
    pub fn spawn<F>(&self, name: impl Into<Cow<'static, str>>, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.service.spawn_until_shutdown(name, OnPanic::Shutdown, future);
    }

    /// Runs `future`, which looks at the token itself, to its end.
    pub(crate) fn spawn_to_end<F>(&self, name: &'static str, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.service.spawn(name, OnPanic::Shutdown, future);
    }

    /// The token that ends them.
    #[must_use]
    pub fn token(&self) -> &CancellationToken {
        self.service.shutdown()
    }

    /// Ends all tasks and waits for them: for those of no service.
    pub async fn shutdown(&self) {
        self.token().cancel();
        self.service.finish(Duration::MAX).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_the_services_failure() {
        let service = service::Tasks::new(CancellationToken::new());
        let tasks = Tasks::from(service.clone());
        tasks.spawn("waits", std::future::pending());
        tasks.spawn("falls", async { panic!("so it is") });
        service.shutdown().cancelled().await;
        assert!(service.finish(Duration::from_secs(10)).await.is_empty());
        assert_eq!(service.failure().as_deref(), Some("task falls panicked: so it is"));
    }
}
