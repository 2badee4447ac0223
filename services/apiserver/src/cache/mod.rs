//! The watch cache: every object of the store, encoded once, and what lately happened to it.
//!
//! One actor owns it ([`actor`]): it takes the feed in revision order, keeps per resource an ordered map of the newest
//! versions and a history of events, and hands events to watchers. After each step it publishes immutable snapshots, then
//! the revision reached, so that a reader who saw revision R finds everything up to R in the snapshots.
//!
//! Invariants:
//! - events reach a watcher in revision order, each once, none missing: a watcher that can't take one is cut off;
//! - a revision's events go out when the actor has all of them, one after another;
//! - what can't be read is not served in an older version: reads that would show it fail, watchers have to list again;
//! - when a revision is published, its events are in every watcher's channel.

mod actor;
mod ordered;
mod reader;
mod resource;
mod selection;
#[cfg(test)]
pub(crate) mod testing;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout_at};

pub use actor::Actor;
pub use ordered::Ordered;
pub use reader::CacheReader;
pub use selection::{Change, Selection};

use crate::error::Error;
use crate::pipeline::Stored;
use crate::storage::codec::Codec;

/// How many events may wait for a watcher.
const WATCHER_QUEUE: usize = 1024;

/// One change of one object.
#[derive(Debug)]
pub struct Event {
    /// At which revision.
    pub revision: i64,
    /// The new version; of a deletion the last version, at the deletion's revision and with its cause.
    pub object: Arc<Stored>,
    /// The version before.
    pub previous: Option<Arc<Stored>>,
    /// Whether it is a deletion.
    pub deleted: bool,
}

/// The objects of one resource at one time.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// The objects.
    pub items: Ordered,
    /// The revision of the last event that is in it.
    pub revision: i64,
    /// What is stored and can't be read: keys, and why.
    pub unreadable: Arc<Unreadable>,
}

/// Keys whose values can't be read, and why.
pub type Unreadable = BTreeMap<Box<str>, String>;

/// How far the cache is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Head {
    /// Everything up to this revision is in it.
    pub revision: i64,
    /// Whether it has caught up with the store once, so that it may serve.
    pub synced: bool,
}

/// What a watcher is handed.
#[derive(Debug, Clone)]
pub enum Dispatch {
    /// An event of its selection.
    Event(Change, Arc<Event>),
    /// The history has a hole: the watcher has to list again.
    Expired,
}

/// Where a watch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// Behind this revision.
    After(i64),
    /// Now: with a snapshot, and what comes after it.
    Now,
}

/// A running watch.
#[derive(Debug)]
pub struct Subscription {
    /// The objects at the begin, if it was asked to begin now.
    pub snapshot: Option<Snapshot>,
    /// The revision the snapshot and the backlog reach.
    pub revision: i64,
    /// What happened between the begin and now.
    pub backlog: VecDeque<(Change, Arc<Event>)>,
    /// What happens from now on. Ends when the watcher was too slow.
    pub events: mpsc::Receiver<Dispatch>,
}

/// The history does not reach back that far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooOld {
    /// What was asked for.
    pub asked: i64,
    /// How far back it reaches.
    pub oldest: i64,
}

pub(crate) struct Slot {
    codec: Codec,
    snapshot: ArcSwap<Snapshot>,
}

pub(crate) struct Subscribe {
    resource: String,
    selection: Arc<Selection>,
    begin: Begin,
    reply: oneshot::Sender<Result<Subscription, TooOld>>,
}

/// The cache's address: reads published snapshots, asks the actor for watches.
#[derive(Clone)]
pub struct Cache {
    slots: Arc<HashMap<String, Arc<Slot>>>,
    head: watch::Receiver<Head>,
    commands: mpsc::Sender<Subscribe>,
}

// === impl Snapshot ===

impl Snapshot {
    /// Refuses a read that would have to show what can't be read.
    pub fn check(&self, selection: &Selection) -> Result<(), Error> {
        let found = match &selection.key {
            Some(key) => self.unreadable.get_key_value(key.as_str()),
            None => self.unreadable.iter().find(|(key, _)| key.starts_with(&selection.prefix)),
        };
        found.map_or(Ok(()), |(key, why)| Err(Error::Unreadable { key: key.to_string(), why: why.clone() }))
    }
}

// === impl Cache ===

impl Cache {
    /// How far the cache is now.
    pub fn head(&self) -> Head {
        *self.head.borrow()
    }

    /// Waits until everything up to `revision` is in the snapshots; false if it is not by the deadline.
    pub async fn reached(&self, revision: i64, deadline: Instant) -> bool {
        let mut head = self.head.clone();
        let reached = head.wait_for(|head| head.synced && head.revision >= revision);
        matches!(timeout_at(deadline, reached).await, Ok(Ok(_)))
    }

    /// Follows the revision reached.
    pub fn heads(&self) -> watch::Receiver<Head> {
        self.head.clone()
    }

    /// The newest snapshot of a resource (its part of the key), and a revision it stands for: at least that of the
    /// cache's head before, and every event of the resource up to it is in the snapshot.
    pub fn snapshot(&self, resource: &str) -> Option<(Arc<Snapshot>, i64)> {
        let head = self.head().revision;
        let snapshot = self.slots.get(resource)?.snapshot.load_full();
        let revision = head.max(snapshot.revision);
        Some((snapshot, revision))
    }

    /// The newest version of an object.
    pub fn get(&self, resource: &str, key: &str) -> Option<Arc<Stored>> {
        self.slots.get(resource)?.snapshot.load().items.get(key).cloned()
    }

    /// Whether there is an object that can't be read.
    pub fn is_unreadable(&self, resource: &str, key: &str) -> bool {
        self.slots.get(resource).is_some_and(|slot| slot.snapshot.load().unreadable.contains_key(key))
    }

    /// How the objects of a resource are read.
    pub fn codec(&self, resource: &str) -> Option<&Codec> {
        self.slots.get(resource).map(|slot| &slot.codec)
    }

    /// Starts a watch.
    pub async fn subscribe(
        &self,
        resource: &str,
        selection: Arc<Selection>,
        begin: Begin,
    ) -> Result<Result<Subscription, TooOld>, Error> {
        let (reply, answer) = oneshot::channel();
        let command = Subscribe { resource: resource.to_owned(), selection, begin, reply };
        self.commands.send(command).await.map_err(|_| Error::Stopped("the watch cache"))?;
        answer.await.map_err(|_| Error::Stopped("the watch cache"))
    }
}
