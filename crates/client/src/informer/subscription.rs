//! What an informer tells a subscriber, and the subscriber has not taken yet.
//!
//! The informer waits for nobody. A subscriber that takes what it is told sees every version; of what lies here beyond
//! [`FULL`] only the difference is kept, object by object, as after a gap that the server has forgotten. So what a
//! subscriber that hangs costs is bounded by the objects there are and those that it was told of.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::mpsc::error::TryRecvError;

use super::{Change, Event};
use crate::object::Object;

/// So many events lie here as they were told.
const FULL: usize = 4096;

/// The changes of an informer, in order. It takes part until it is dropped.
#[derive(Debug)]
pub struct Subscription<K> {
    shared: Arc<Shared<K>>,
}

/// The informer's end of it.
#[derive(Debug)]
pub(super) struct Feed<K> {
    shared: Arc<Shared<K>>,
}

#[derive(Debug)]
struct Shared<K> {
    pending: Mutex<Pending<K>>,
    told: Notify,
}

#[derive(Debug)]
struct Pending<K> {
    events: VecDeque<Event<K>>,
    /// When there are so many, only differences are kept.
    full: usize,
    /// The informer ended.
    ended: bool,
    /// The subscriber is gone.
    left: bool,
}

/// Both ends.
pub(super) fn pair<K>() -> (Feed<K>, Subscription<K>) {
    let pending = Pending { events: VecDeque::new(), full: FULL, ended: false, left: false };
    let shared = Arc::new(Shared { pending: Mutex::new(pending), told: Notify::new() });
    (Feed { shared: shared.clone() }, Subscription { shared })
}

impl<K> Subscription<K> {
    /// The next change; `None` when the informer ended. Dropping the future loses nothing.
    pub async fn recv(&mut self) -> Option<Event<K>> {
        loop {
            match self.try_recv() {
                Ok(event) => return Some(event),
                Err(TryRecvError::Disconnected) => return None,
                // What is told between the look and the wait leaves a permit.
                Err(TryRecvError::Empty) => self.shared.told.notified().await,
            }
        }
    }

    /// The next change, if there is one already.
    ///
    /// # Errors
    /// There is none now, or will be none.
    pub fn try_recv(&mut self) -> Result<Event<K>, TryRecvError> {
        let mut pending = self.shared.pending.lock();
        match pending.events.pop_front() {
            Some(event) => Ok(event),
            None if pending.ended => Err(TryRecvError::Disconnected),
            None => Err(TryRecvError::Empty),
        }
    }
}

impl<K> Drop for Subscription<K> {
    fn drop(&mut self) {
        let mut pending = self.shared.pending.lock();
        pending.left = true;
        pending.events = VecDeque::new();
    }
}

impl<K: Object> Feed<K> {
    /// Tells a change; false: nobody wants it any more.
    pub(super) fn send(&self, event: Event<K>) -> bool {
        let mut pending = self.shared.pending.lock();
        if pending.left {
            return false;
        }
        pending.events.push_back(event);
        if pending.events.len() >= pending.full {
            let before = pending.events.len();
            pending.events = differences(std::mem::take(&mut pending.events));
            // Not again before there is as much to gain: otherwise a subscriber of many objects pays for every event.
            pending.full = FULL.max(2 * pending.events.len());
            tracing::debug!(before, after = pending.events.len(), "a subscriber is behind: differences are kept");
        }
        drop(pending);
        self.shared.told.notify_one();
        true
    }
}

impl<K> Drop for Feed<K> {
    fn drop(&mut self) {
        self.shared.pending.lock().ended = true;
        self.shared.told.notify_one();
    }
}

/// The same change from beginning to end, with at most a deletion and an addition of each object, each where its newest
/// part was.
fn differences<K: Object>(events: VecDeque<Event<K>>) -> VecDeque<Event<K>> {
    let mut kept: Vec<Option<Event<K>>> = Vec::with_capacity(events.len());
    let mut newest = HashMap::new();
    for mut event in events {
        let key = event.change.object().key();
        let known: Option<&usize> = newest.get(&key);
        let earlier = known.and_then(|at| kept.get_mut(*at)).and_then(Option::take);
        if let Some(earlier) = earlier {
            match (earlier.change, event.change) {
                // An object of the name that is gone stands by itself.
                (Change::Deleted(old), change @ (Change::Added(_) | Change::Updated { .. })) => {
                    let gone = Event { change: Change::Deleted(old), ..earlier };
                    if let Some(slot) = newest.get(&key).and_then(|at| kept.get_mut(*at)) {
                        *slot = Some(gone);
                    }
                    event.change = change;
                }
                // It was never told of.
                (Change::Added(_), Change::Deleted(_)) => {
                    newest.remove(&key);
                    continue;
                }
                (Change::Added(_), Change::Updated { new, .. }) => event.change = Change::Added(new),
                (Change::Updated { old, .. }, Change::Updated { new, .. }) => {
                    event.change = Change::Updated { old, new }
                }
                (_, change) => event.change = change,
            }
        }
        newest.insert(key, kept.len());
        kept.push(Some(event));
    }
    kept.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use trireme_telemetry::Cause;

    use super::*;

    fn map(name: &str, revision: i64) -> Arc<ConfigMap> {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.to_owned());
        map.metadata.resource_version = Some(revision.to_string());
        Arc::new(map)
    }

    fn event(change: Change<ConfigMap>) -> Event<ConfigMap> {
        let revision = change.object().revision();
        Event { change, cause: Cause::default(), revision, initial: false }
    }

    fn drain(subscription: &mut Subscription<ConfigMap>) -> Vec<String> {
        let told = |event: Event<ConfigMap>| match event.change {
            Change::Added(new) => format!("+{}@{}", new.key().name, new.revision()),
            Change::Updated { old, new } => format!("{}@{}-{}", new.key().name, old.revision(), new.revision()),
            Change::Deleted(old) => format!("-{}@{}", old.key().name, old.revision()),
        };
        std::iter::from_fn(|| subscription.try_recv().ok()).map(told).collect()
    }

    #[test]
    fn who_takes_what_is_told_sees_every_version() {
        let (feed, mut subscription) = pair();
        for revision in 1..100 {
            let change = Change::Updated { old: map("a", revision), new: map("a", revision + 1) };
            assert!(feed.send(event(change)));
        }
        assert_eq!(drain(&mut subscription).len(), 99);
        drop(feed);
        assert_eq!(subscription.try_recv().unwrap_err(), TryRecvError::Disconnected);
    }

    #[test]
    fn who_hangs_is_kept_the_differences() {
        let (feed, mut subscription) = pair();
        feed.send(event(Change::Updated { old: map("changes", 1), new: map("changes", 2) }));
        feed.send(event(Change::Added(map("comes", 3))));
        feed.send(event(Change::Added(map("came and went", 4))));
        feed.send(event(Change::Deleted(map("came and went", 5))));
        feed.send(event(Change::Deleted(map("made anew", 6))));
        feed.send(event(Change::Added(map("made anew", 7))));
        feed.send(event(Change::Updated { old: map("goes", 7), new: map("goes", 8) }));
        feed.send(event(Change::Deleted(map("goes", 9))));
        let mut last = 10;
        for _ in 0..100_000 {
            last += 1;
            feed.send(event(Change::Updated { old: map("changes", last - 1), new: map("changes", last) }));
        }
        assert!(subscription.shared.pending.lock().events.len() <= FULL);
        for _ in 0..FULL {
            last += 1;
            feed.send(event(Change::Updated { old: map("changes", last - 1), new: map("changes", last) }));
        }
        let told = drain(&mut subscription);
        assert_eq!(told[..4], ["+comes@3", "-made anew@6", "+made anew@7", "-goes@9"]);
        assert!(told[4].starts_with("changes@1-"), "{}", told[4]);
        assert!(told.last().unwrap().ends_with(&format!("-{last}")));
    }

    #[test]
    fn who_left_is_told_no_more() {
        let (feed, subscription) = pair();
        drop(subscription);
        assert!(!feed.send(event(Change::Added(map("a", 1)))));
    }
}
