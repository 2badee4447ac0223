//! What wakes a controller's keys and what its reconciler reads: an informer of any kind.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::context::{Effect, Write};
use crate::informer::{Change, Informer};
use crate::key::ObjectKey;
use crate::object::Object;
use crate::queue::WorkQueue;

type Keys<K> = Arc<dyn Fn(&Change<K>) -> Vec<ObjectKey> + Send + Sync>;
type Wait<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// An informer, whatever its kind.
pub(super) trait Source: Send + Sync {
    /// Puts what changes into the queue, until dropped.
    fn pump(&self, queue: WorkQueue<ObjectKey>) -> Pin<Box<dyn Future<Output = ()> + Send>>;
    /// Puts everything there is into the queue.
    fn resync(&self, queue: &WorkQueue<ObjectKey>);
    /// Waits for the first list.
    fn synced(&self) -> Wait<'_>;
    /// Waits for a revision.
    fn reached(&self, revision: i64) -> Wait<'_>;
    /// Waits for everything written before the call.
    fn refreshed(&self) -> Wait<'_>;
    /// Waits until it has seen a write, if it can see it.
    fn saw<'a>(&'a self, write: &'a Write) -> Wait<'a>;
}

pub(super) struct FromInformer<K> {
    informer: Informer<K>,
    keys: Option<Keys<K>>,
}

impl<K: Object> FromInformer<K> {
    pub(super) fn new(informer: &Informer<K>, keys: Option<Keys<K>>) -> Self {
        Self { informer: informer.clone(), keys }
    }
}

impl<K: Object> Source for FromInformer<K> {
    fn pump(&self, queue: WorkQueue<ObjectKey>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let Some(keys) = self.keys.clone() else {
            return Box::pin(std::future::pending());
        };
        let mut events = self.informer.subscribe();
        Box::pin(async move {
            while let Some(event) = events.recv().await {
                for key in keys(&event.change) {
                    queue.add(key, event.cause);
                }
            }
            std::future::pending().await
        })
    }

    fn resync(&self, queue: &WorkQueue<ObjectKey>) {
        let Some(keys) = &self.keys else { return };
        for entry in self.informer.store().entries() {
            for key in keys(&Change::Added(entry.object)) {
                queue.add(key, crate::wake::Wakes::default());
            }
        }
    }

    fn synced(&self) -> Wait<'_> {
        Box::pin(self.informer.synced())
    }

    fn reached(&self, revision: i64) -> Wait<'_> {
        Box::pin(self.informer.reached(revision))
    }

    fn refreshed(&self) -> Wait<'_> {
        Box::pin(async {
            self.informer.refresh().await;
        })
    }

    fn saw<'a>(&'a self, write: &'a Write) -> Wait<'a> {
        let follows = self.informer.resource();
        if follows.group != write.resource.group || follows.plural != write.resource.plural {
            return Box::pin(std::future::ready(()));
        }
        match &write.effect {
            Effect::Revision(revision) | Effect::Deleted { revision, .. } if *revision > 0 => {
                Box::pin(self.informer.reached(*revision))
            }
            // The answer did not say which revision it was: look for its effect.
            Effect::Deleted { uid, .. } => Box::pin(self.informer.until(&write.key, move |object| {
                object.is_none_or(|o| o.is_deleting() || uid.as_deref().is_some_and(|u| u != o.uid()))
            })),
            Effect::Revision(_) => Box::pin(std::future::ready(())),
        }
    }
}
