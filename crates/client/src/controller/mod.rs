//! The engine of controllers. A reconciler says what to do about a key; everything else is here: what wakes a key, that it
//! runs in one worker at a time, back-off, the span it runs in and whose child that is, the fence its writes carry, and
//! that it does not run again before its informers have seen its writes.
//!
//! Under a claim nothing runs until the claim is held and every informer has seen the claim's revision; when the claim is
//! lost all work is dropped and the engine waits. It never ends on its own.

mod engine;
mod source;

use std::sync::Arc;
use std::time::Duration;

use crate::claims::Claim;
use crate::clock::Clock;
use crate::error::Error;
use crate::informer::{Change, Informer};
use crate::key::ObjectKey;
use crate::object::Object;
use crate::queue::WorkQueue;
use source::{FromInformer, Source};

/// What a reconciler wants next for its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Nothing until something happens.
    Done,
    /// A look after this time, unless something happens before.
    RequeueAfter(Duration),
}

/// Why a reconciler did not reach its goal; the key comes back after its back-off.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// A call failed.
    #[error(transparent)]
    Call(#[from] Error),
    /// Several things failed; the first is told.
    #[error("{0}")]
    Other(String),
}

impl ReconcileError {
    /// An error in words.
    pub fn other(why: impl std::fmt::Display) -> Self {
        ReconcileError::Other(why.to_string())
    }
}

/// Makes the world as an object wants it. Level-triggered: it looks at what is, and running it twice does nothing more.
#[async_trait::async_trait]
pub trait Reconciler: Send + Sync + 'static {
    /// One round for one key.
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError>;
}

/// A controller to be run.
pub struct Controller {
    name: &'static str,
    sources: Vec<Box<dyn Source>>,
    queue: WorkQueue<ObjectKey>,
    claim: Option<Claim>,
    clock: Clock,
    trace_window: Duration,
    resync: Option<Duration>,
    quiet: bool,
    always: Vec<ObjectKey>,
}

impl Controller {
    /// A controller named as in its spans and fences ("deployment").
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            sources: Vec::new(),
            queue: WorkQueue::new(),
            claim: None,
            clock: Clock::system(),
            trace_window: Duration::from_secs(600),
            resync: None,
            quiet: false,
            always: Vec::new(),
        }
    }

    /// Wakes the keys that `keys` names for an object when it changes (of an update: for both states).
    #[must_use]
    pub fn watch<K: Object>(
        self,
        informer: &Informer<K>,
        keys: impl Fn(&K) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Self {
        self.watch_changes(informer, move |change| match change {
            Change::Added(object) | Change::Deleted(object) => keys(object),
            Change::Updated { old, new } => {
                let mut all = keys(new);
                for key in keys(old) {
                    if !all.contains(&key) {
                        all.push(key);
                    }
                }
                all
            }
        })
    }

    /// Wakes the keys that `keys` names for a change. What is there when work begins comes as `Added`.
    #[must_use]
    pub fn watch_changes<K: Object>(
        mut self,
        informer: &Informer<K>,
        keys: impl Fn(&Change<K>) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Self {
        self.sources.push(Box::new(FromInformer::new(informer, Some(Arc::new(keys)))));
        self
    }

    /// Reads this informer too: it must be synced before work begins, and must have seen the controller's writes.
    #[must_use]
    pub fn reads<K: Object>(mut self, informer: &Informer<K>) -> Self {
        self.sources.push(Box::new(FromInformer::new(informer, None)));
        self
    }

    /// Works only while the claim is held, and its writes carry it.
    #[must_use]
    pub fn claim(mut self, claim: &Claim) -> Self {
        self.claim = Some(claim.clone());
        self
    }

    /// Tells time by this clock.
    #[must_use]
    pub fn clock(mut self, clock: &Clock) -> Self {
        self.clock = clock.clone();
        self
    }

    /// A reaction to something older than this is a trace of its own.
    #[must_use]
    pub fn trace_window(mut self, window: Duration) -> Self {
        self.trace_window = window;
        self
    }

    /// Wakes every key this often.
    #[must_use]
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// A round that nothing caused (a look at the clock) has no span of its own; what it writes has.
    #[must_use]
    pub fn quiet(mut self) -> Self {
        self.quiet = true;
        self
    }

    /// Wakes this key whenever work begins: for a controller that looks at everything from time to time.
    #[must_use]
    pub fn always(mut self, key: ObjectKey) -> Self {
        self.always.push(key);
        self
    }

    /// The queue, to wake keys from elsewhere.
    #[must_use]
    pub fn queue(&self) -> WorkQueue<ObjectKey> {
        self.queue.clone()
    }

    /// Works with so many reconciles at once until dropped.
    pub async fn run(self, workers: usize, reconciler: Arc<dyn Reconciler>) {
        engine::Engine::new(self, workers, reconciler).run().await;
    }
}
