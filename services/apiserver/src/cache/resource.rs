//! What the actor keeps of one resource.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use trireme_telemetry::Cause;

use super::{
    Begin, Dispatch, Event, Ordered, Selection, Slot, Snapshot, Subscription, TooOld, Unreadable, WATCHER_QUEUE,
};
use crate::pipeline::Stored;

/// How many events a resource's history has at most.
const HISTORY: usize = 4096;
/// How many bytes of objects it keeps alive at most.
const HISTORY_BYTES: usize = 16 << 20;

/// One resource.
pub(super) struct Resource {
    pub(super) slot: Arc<Slot>,
    items: Ordered,
    unreadable: Arc<Unreadable>,
    last: i64,
    history: VecDeque<Arc<Event>>,
    history_bytes: usize,
    /// A watch may begin behind this revision or a later one.
    floor: i64,
    watchers: Vec<Watcher>,
    changed: bool,
}

struct Watcher {
    selection: Arc<Selection>,
    /// What is at or before this revision was in its snapshot or backlog.
    after: i64,
    events: mpsc::Sender<Dispatch>,
}

/// To how many watchers an event went, and how many were cut off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Reach {
    pub(super) told: usize,
    pub(super) cut: usize,
}

// === impl Resource ===

impl Resource {
    pub(super) fn new(slot: Arc<Slot>) -> Self {
        Self {
            slot,
            items: Ordered::default(),
            unreadable: Arc::default(),
            last: 0,
            history: VecDeque::new(),
            history_bytes: 0,
            floor: 0,
            watchers: Vec::new(),
            changed: false,
        }
    }

    /// Starts over with these objects, sorted by key. Watchers have to list again.
    pub(super) fn reset(&mut self, items: Vec<Arc<Stored>>, unreadable: Unreadable, revision: i64) {
        self.items = Ordered::from_sorted(items);
        self.unreadable = Arc::new(unreadable);
        self.begin_anew(revision);
    }

    /// A new version of an object that can't be read: the one before it is no longer served. Watchers have to list again,
    /// and hear then that they can't: an object that is there must not look deleted.
    pub(super) fn lose(&mut self, key: &str, why: String, revision: i64) {
        self.items.remove(key);
        Arc::make_mut(&mut self.unreadable).insert(key.into(), why);
        self.begin_anew(revision);
    }

    fn begin_anew(&mut self, revision: i64) {
        self.last = revision;
        self.floor = revision;
        self.history.clear();
        self.history_bytes = 0;
        self.changed = true;
        for watcher in self.watchers.drain(..) {
            let _ = watcher.events.try_send(Dispatch::Expired);
        }
    }

    fn can_be_read(&mut self, key: &str) {
        if self.unreadable.contains_key(key) {
            Arc::make_mut(&mut self.unreadable).remove(key);
            self.changed = true;
        }
    }

    /// A new version of an object.
    pub(super) fn put(&mut self, object: Stored) -> Reach {
        self.can_be_read(&object.key);
        let object = Arc::new(object);
        let previous = self.items.insert(object.clone());
        self.record(Event { revision: object.revision, object, previous, deleted: false })
    }

    /// An object is gone. Nothing happens if it was not there.
    pub(super) fn delete(&mut self, key: &str, revision: i64, cause: Option<Arc<Cause>>) -> Reach {
        self.can_be_read(key);
        let Some(previous) = self.items.remove(key) else { return Reach::default() };
        let object = Arc::new(self.slot.codec.tombstone(&previous, revision, cause));
        self.record(Event { revision, object, previous: Some(previous), deleted: true })
    }

    fn record(&mut self, event: Event) -> Reach {
        self.changed = true;
        self.last = event.revision;
        let event = Arc::new(event);
        self.history_bytes += event.object.body.len();
        self.history.push_back(event.clone());
        while self.history.len() > HISTORY || self.history_bytes > HISTORY_BYTES {
            let Some(oldest) = self.history.pop_front() else { break };
            self.history_bytes -= oldest.object.body.len();
            self.floor = oldest.revision;
        }
        self.dispatch(&event)
    }

    fn dispatch(&mut self, event: &Arc<Event>) -> Reach {
        let mut reach = Reach::default();
        self.watchers.retain(|watcher| {
            if event.revision <= watcher.after {
                return true;
            }
            let Some(change) = watcher.selection.change(event) else { return !watcher.events.is_closed() };
            match watcher.events.try_send(Dispatch::Event(change, event.clone())) {
                Ok(()) => {
                    reach.told += 1;
                    true
                }
                Err(TrySendError::Closed(_)) => false,
                Err(TrySendError::Full(_)) => {
                    reach.cut += 1;
                    false
                }
            }
        });
        reach
    }

    /// Starts a watch; `head` is the revision that the cache has reached.
    pub(super) fn subscribe(
        &mut self,
        selection: Arc<Selection>,
        begin: Begin,
        head: i64,
    ) -> Result<Subscription, TooOld> {
        let head = head.max(self.last);
        let mut backlog = VecDeque::new();
        let (snapshot, after) = match begin {
            Begin::Now => (Some(self.snapshot()), head),
            Begin::After(asked) if asked < self.floor => return Err(TooOld { asked, oldest: self.floor }),
            Begin::After(asked) => {
                let first = self.history.partition_point(|event| event.revision <= asked);
                for event in self.history.range(first..) {
                    if let Some(change) = selection.change(event) {
                        backlog.push_back((change, event.clone()));
                    }
                }
                (None, head.max(asked))
            }
        };
        let (sender, events) = mpsc::channel(WATCHER_QUEUE);
        self.watchers.push(Watcher { selection, after, events: sender });
        Ok(Subscription { snapshot, revision: after, backlog, events })
    }

    /// Forgets watchers that went away.
    pub(super) fn sweep(&mut self) {
        self.watchers.retain(|watcher| !watcher.events.is_closed());
    }

    /// How many watch.
    pub(super) fn watchers(&self) -> usize {
        self.watchers.len()
    }

    /// Publishes what changed.
    pub(super) fn publish(&mut self) {
        if std::mem::take(&mut self.changed) {
            self.slot.snapshot.store(Arc::new(self.snapshot()));
        }
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot { items: self.items.clone(), revision: self.last, unreadable: self.unreadable.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Change;
    use crate::cache::testing::{slot, stored};

    fn watch(resource: &mut Resource, after: i64) -> Result<Subscription, TooOld> {
        resource.subscribe(Arc::new(Selection::all("/registry/configmaps/")), Begin::After(after), 0)
    }

    fn revisions(subscription: &mut Subscription) -> Vec<(Change, i64)> {
        let mut seen: Vec<_> = subscription.backlog.drain(..).map(|(change, event)| (change, event.revision)).collect();
        while let Ok(Dispatch::Event(change, event)) = subscription.events.try_recv() {
            seen.push((change, event.revision));
        }
        seen
    }

    #[test]
    fn a_watch_resumes_without_gap_and_double() {
        let mut resource = Resource::new(slot());
        resource.reset(vec![Arc::new(stored("/registry/configmaps/a/x", 5))], Unreadable::new(), 10);
        resource.put(stored("/registry/configmaps/a/x", 11));
        resource.put(stored("/registry/configmaps/a/y", 12));
        let mut subscription = watch(&mut resource, 11).unwrap();
        resource.delete("/registry/configmaps/a/x", 13, None);
        assert_eq!(revisions(&mut subscription), [(Change::Added, 12), (Change::Deleted, 13)]);
        let mut from_the_begin = watch(&mut resource, 10).unwrap();
        let all = [(Change::Modified, 11), (Change::Added, 12), (Change::Deleted, 13)];
        assert_eq!(revisions(&mut from_the_begin), all);
        assert_eq!(watch(&mut resource, 9).unwrap_err(), TooOld { asked: 9, oldest: 10 });
    }

    #[test]
    fn the_history_is_bounded() {
        let mut resource = Resource::new(slot());
        resource.reset(Vec::new(), Unreadable::new(), 0);
        let events = i64::try_from(HISTORY).unwrap() + 10;
        for revision in 1..=events {
            resource.put(stored("/registry/configmaps/a/x", revision));
        }
        assert!(watch(&mut resource, 9).is_err());
        let mut subscription = watch(&mut resource, 10).unwrap();
        assert_eq!(revisions(&mut subscription).len(), HISTORY);
    }

    #[test]
    fn a_slow_watcher_is_cut_off_behind_what_it_has() {
        let mut resource = Resource::new(slot());
        resource.reset(Vec::new(), Unreadable::new(), 0);
        let mut subscription = watch(&mut resource, 0).unwrap();
        let mut cut = 0;
        for revision in 1..=i64::try_from(WATCHER_QUEUE).unwrap() + 1 {
            cut += resource.put(stored("/registry/configmaps/a/x", revision)).cut;
        }
        assert_eq!(cut, 1);
        assert_eq!(resource.watchers(), 0);
        assert_eq!(revisions(&mut subscription).len(), WATCHER_QUEUE);
        assert!(subscription.events.try_recv().is_err());
    }

    #[test]
    fn what_cannot_be_read_is_not_served_as_it_was() {
        let (x, y) = ("/registry/configmaps/a/x", "/registry/configmaps/a/y");
        let mut resource = Resource::new(slot());
        resource.reset(vec![Arc::new(stored(x, 5)), Arc::new(stored(y, 6))], Unreadable::new(), 10);
        let mut subscription = watch(&mut resource, 10).unwrap();
        resource.lose(x, "no key".to_owned(), 11);
        resource.publish();
        // No deletion is told: the watch ends, and resumes nowhere before the loss.
        assert!(matches!(subscription.events.try_recv(), Ok(Dispatch::Expired)));
        assert!(watch(&mut resource, 10).is_err());
        let served = resource.slot.snapshot.load_full();
        assert!(served.items.get(x).is_none() && served.items.get(y).is_some());
        let of =
            |key: Option<&str>| Selection { key: key.map(str::to_owned), ..Selection::all("/registry/configmaps/") };
        assert!(served.check(&of(None)).is_err() && served.check(&of(Some(x))).is_err());
        assert!(served.check(&of(Some(y))).is_ok());
        // A version that can be read, or a deletion, mends it.
        resource.put(stored(x, 12));
        resource.publish();
        assert!(resource.slot.snapshot.load().check(&of(None)).is_ok());
        resource.lose(y, "no key".to_owned(), 13);
        resource.delete(y, 14, None);
        resource.publish();
        assert!(resource.slot.snapshot.load().check(&of(None)).is_ok());
    }

    #[test]
    fn a_reset_ends_watches() {
        let mut resource = Resource::new(slot());
        resource.reset(Vec::new(), Unreadable::new(), 3);
        let mut subscription = watch(&mut resource, 3).unwrap();
        resource.reset(Vec::new(), Unreadable::new(), 20);
        assert!(matches!(subscription.events.try_recv(), Ok(Dispatch::Expired)));
        assert!(watch(&mut resource, 3).is_err());
    }
}
