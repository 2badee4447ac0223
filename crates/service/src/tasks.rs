//! Named background tasks, and what a panic in one means.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::run::panic_message;

/// What follows when a task panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnPanic {
    /// It is logged; the service goes on without the task.
    Log,
    /// The service can't go on: it is shut down in order and fails.
    Shutdown,
}

/// The background tasks of a service. Clones share them.
#[derive(Clone, Debug)]
pub struct Tasks {
    tracker: TaskTracker,
    shutdown: CancellationToken,
    running: Arc<Running>,
}

#[derive(Debug, Default)]
struct Running {
    next: AtomicU64,
    names: Mutex<BTreeMap<u64, Cow<'static, str>>>,
    failure: Mutex<Option<String>>,
}

impl Tasks {
    /// No tasks yet; they are asked to end through `shutdown`.
    #[must_use]
    pub fn new(shutdown: CancellationToken) -> Self {
        Self { tracker: TaskTracker::new(), shutdown, running: Arc::default() }
    }

    /// Cancelled when the tasks are to end.
    #[must_use]
    pub fn shutdown(&self) -> &CancellationToken {
        &self.shutdown
    }

    /// Runs `task` on the runtime. It is to return soon after [`Tasks::shutdown`] is cancelled.
    pub fn spawn<F>(&self, name: impl Into<Cow<'static, str>>, on_panic: OnPanic, task: F) -> AbortHandle
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let name = name.into();
        let tasks = self.clone();
        let entry = Entry::new(&self.running, name.clone());
        let task = async move {
            let _entry = entry;
            if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await {
                tasks.panicked(&name, on_panic, &panic_message(&*panic));
            }
        };
        self.tracker.spawn(task).abort_handle()
    }

    /// Runs `task` until it returns or the shutdown begins, whichever is first: for tasks that may be dropped at any
    /// point where they wait.
    pub fn spawn_until_shutdown<F>(&self, name: impl Into<Cow<'static, str>>, on_panic: OnPanic, task: F) -> AbortHandle
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let shutdown = self.shutdown.clone();
        self.spawn(name, on_panic, async move {
            tokio::select! {
                () = task => {}
                () = shutdown.cancelled() => {}
            }
        })
    }

    /// Runs what `make` makes, and makes it again after a panic (at once, then after ever longer pauses up to five
    /// seconds), until it returns or the shutdown begins.
    pub fn supervise<M, F>(&self, name: impl Into<Cow<'static, str>>, mut make: M) -> AbortHandle
    where
        M: FnMut() -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let name = name.into();
        let label = name.clone();
        let tasks = self.clone();
        self.spawn_until_shutdown(name, OnPanic::Shutdown, async move {
            let mut backoff = Backoff::new(Duration::from_secs(5));
            loop {
                let begun = Instant::now();
                let Err(panic) = AssertUnwindSafe(make()).catch_unwind().await else { return };
                tasks.panicked(&label, OnPanic::Log, &panic_message(&*panic));
                tokio::time::sleep(backoff.after(begun.elapsed())).await;
            }
        })
    }

    /// Waits until all tasks have ended, for at most `limit`; the names of those that have not.
    pub async fn finish(&self, limit: Duration) -> Vec<String> {
        self.tracker.close();
        if tokio::time::timeout(limit, self.tracker.wait()).await.is_ok() {
            return Vec::new();
        }
        self.running.names.lock().values().map(|name| name.to_string()).collect()
    }

    /// Why the service can't go on, if a task that it needs panicked.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.running.failure.lock().clone()
    }

    fn panicked(&self, name: &str, on_panic: OnPanic, message: &str) {
        metrics::counter!("trireme_task_panics_total", "task" => name.to_owned()).increment(1);
        tracing::error!(task = name, "task panicked: {message}");
        if on_panic == OnPanic::Shutdown {
            self.running.failure.lock().get_or_insert_with(|| format!("task {name} panicked: {message}"));
            self.shutdown.cancel();
        }
    }
}

/// A task in the list of those that run, for as long as it lives.
struct Entry {
    running: Arc<Running>,
    id: u64,
}

impl Entry {
    fn new(running: &Arc<Running>, name: Cow<'static, str>) -> Self {
        let id = running.next.fetch_add(1, Ordering::Relaxed);
        running.names.lock().insert(id, name);
        Self { running: Arc::clone(running), id }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.running.names.lock().remove(&self.id);
    }
}

/// Pauses between restarts: none, then doubling from 10 ms, from the start again after a minute without a fall.
#[derive(Debug)]
pub(crate) struct Backoff {
    limit: Duration,
    falls: u32,
}

impl Backoff {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, falls: 0 }
    }

    /// The pause after something that stood for `stood`.
    pub(crate) fn after(&mut self, stood: Duration) -> Duration {
        if stood >= Duration::from_secs(60) {
            self.falls = 0;
        }
        let pause = match self.falls {
            0 => Duration::ZERO,
            n => Duration::from_millis(10).saturating_mul(1 << (n - 1).min(16)),
        };
        self.falls = self.falls.saturating_add(1);
        pause.min(self.limit)
    }
}
