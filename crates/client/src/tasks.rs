//! The tasks a component's client parts run in, and their end.

use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Starts tasks that end when the component shuts down.
#[derive(Debug, Clone, Default)]
pub struct Tasks {
    token: CancellationToken,
    tracker: TaskTracker,
}

impl Tasks {
    /// Tasks that end with `token`.
    #[must_use]
    pub fn new(token: CancellationToken) -> Self {
        Self { token, tracker: TaskTracker::new() }
    }

    /// Runs `future` until it ends or the component shuts down.
    pub fn spawn<F>(&self, name: &'static str, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let token = self.token.clone();
        self.spawn_to_end(name, async move {
            if token.run_until_cancelled_owned(future).await.is_none() {
                tracing::debug!(task = name, "ended by shutdown");
            }
        });
    }

    /// Runs `future`, which looks at the token itself, to its end.
    pub(crate) fn spawn_to_end<F>(&self, name: &'static str, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let token = self.token.clone();
        self.tracker.spawn(async move {
            if AssertUnwindSafe(future).catch_unwind().await.is_err() {
                // The message was printed by the panic hook. What others wait for will never come.
                tracing::error!(task = name, "panicked, shutting down");
                token.cancel();
            }
        });
    }

    /// The token that ends them.
    #[must_use]
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// Ends all tasks and waits for them.
    pub async fn shutdown(&self) {
        self.token.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}
