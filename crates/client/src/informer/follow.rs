//! The task of an informer: list, watch from there, and again.
//!
//! State machine: `List` until a list succeeded; then `Watch` from the newest revision seen. A watch that ends is opened
//! again where it stood; one that cannot go on (410) leads back to `List`, whose result is compared with what is kept, so
//! that subscribers see the differences and nothing twice.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use trireme_telemetry::{Cause, Hop};

use super::snapshot::{Entry, Snapshot};
use super::subscription::Feed;
use super::{Builder, Change, Command, Event, Newcomers, Store};
use crate::api::decode;
use crate::backoff::Backoff;
use crate::error::Error;
use crate::key::ObjectKey;
use crate::object::{MetaObject, Object};
use crate::transport::{RawEvent, RawObject, Request};

/// The revision of an informer that has not listed yet.
pub(super) const UNSYNCED: i64 = -1;
/// Someone waits for a revision that no event brought: after this the server is asked.
const PATIENCE: Duration = Duration::from_millis(50);
/// Where it cannot be asked (REST), everything is listed again after this.
const PATIENCE_BEFORE_LISTING: Duration = Duration::from_secs(1);
/// A watch that ended sooner than this did not work.
const SHORT: Duration = Duration::from_secs(1);

struct Follower<K> {
    builder: Builder<K>,
    store: Store<K>,
    snapshot: Snapshot<K>,
    commands: mpsc::Receiver<Command>,
    newcomers: Newcomers<K>,
    advance: watch::Sender<i64>,
    revision: i64,
    subscribers: Vec<Feed<K>>,
    reaching: Vec<(i64, oneshot::Sender<()>)>,
    /// Those who want to know that all is seen, and for whom nobody asked yet.
    refreshing: Vec<oneshot::Sender<i64>>,
    /// The questions the server has not answered yet, in order, with those for whom each was asked.
    asked: VecDeque<Vec<oneshot::Sender<i64>>>,
}

#[derive(Clone, Copy)]
enum Next {
    Watch,
    List,
    Stop,
}

/// Runs until every handle is dropped.
pub(super) async fn run<K: Object>(
    builder: Builder<K>,
    store: Store<K>,
    commands: mpsc::Receiver<Command>,
    newcomers: Newcomers<K>,
    advance: watch::Sender<i64>,
) {
    let follower = Follower {
        builder,
        store,
        snapshot: Snapshot::default(),
        commands,
        newcomers,
        advance,
        revision: UNSYNCED,
        subscribers: Vec::new(),
        reaching: Vec::new(),
        refreshing: Vec::new(),
        asked: VecDeque::new(),
    };
    follower.run().await;
}

impl<K: Object> Follower<K> {
    async fn run(mut self) {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(10));
        let mut next = Next::List;
        loop {
            let outcome = match next {
                Next::Stop => return,
                // Boxed: a list is short, and an informer that waits for events should not keep its room.
                Next::List => Box::pin(self.list()).await,
                Next::Watch => self.watch(&mut backoff).await,
            };
            next = match outcome {
                Ok(Next::Watch) if matches!(next, Next::List) => {
                    backoff.reset();
                    Next::Watch
                }
                Ok(following) => following,
                Err(error) => {
                    let gone = error.is_gone();
                    let resource = self.builder.resource.group_resource();
                    match error.code() {
                        Some(410) => tracing::debug!(resource, "the watch stood too far back, listing again"),
                        Some(code) if is_expected(code, self.builder.fleeting, self.revision) => {
                            tracing::debug!(resource, %error, "out of reach");
                        }
                        Some(_) => tracing::warn!(resource, %error, "cannot follow"),
                        // Of a broken connection the transport tells once for all that use it.
                        None => tracing::debug!(resource, %error, "cannot follow"),
                    }
                    if !self.wait(backoff.wait()).await {
                        return;
                    }
                    if gone || self.revision == UNSYNCED { Next::List } else { next }
                }
            };
        }
    }

    /// Waits, serving commands; false: nobody is left.
    async fn wait(&mut self, duration: Duration) -> bool {
        let until = Instant::now() + duration;
        loop {
            tokio::select! {
                command = self.commands.recv() => match command {
                    Some(command) => self.serve(command),
                    None => return false,
                },
                () = tokio::time::sleep_until(until) => return true,
            }
        }
    }

    fn serve(&mut self, command: Command) {
        self.welcome();
        match command {
            Command::Welcome => {}
            Command::Refresh(reply) => self.refreshing.push(reply),
            Command::Reach(revision, reply) => {
                self.reaching.push((revision, reply));
                self.answer_reached();
            }
        }
    }

    /// Those who want to subscribe get what is there.
    fn welcome(&mut self) {
        let newcomers = std::mem::take(&mut *self.newcomers.lock());
        for subscriber in newcomers {
            for (_, entry) in self.snapshot.iter() {
                subscriber.send(Event {
                    change: Change::Added(entry.object.clone()),
                    cause: entry.cause.over(Hop::Informer),
                    revision: entry.revision,
                    initial: true,
                });
            }
            self.subscribers.push(subscriber);
        }
    }

    fn request(&self, verb: &'static str) -> Request {
        let mut request = Request::new(verb, &self.builder.resource, &self.builder.namespace, "");
        request.metadata_only = self.builder.metadata_only;
        request.options = serde_json::to_value(&self.builder.selection).unwrap_or_default();
        request
    }

    // --- list

    async fn list(&mut self) -> Result<Next, Error> {
        // Those who ask from here on need a later answer than this list.
        let waiting: Vec<_> = self.refreshing.drain(..).chain(self.asked.drain(..).flatten()).collect();
        let client = self.builder.client.clone();
        let request = self.request("list");
        let call = client.list(&request);
        tokio::pin!(call);
        let listed = loop {
            tokio::select! {
                biased;
                listed = &mut call => break listed,
                command = self.commands.recv() => match command {
                    // `serve` needs all of self but the call borrows none of it.
                    Some(command) => self.serve(command),
                    None => return Ok(Next::Stop),
                },
            }
        };
        let listed = match listed {
            Ok(listed) => listed,
            Err(error) => {
                self.refreshing.extend(waiting);
                return Err(error);
            }
        };
        let mut fresh = BTreeMap::new();
        for item in listed.items {
            let raw = RawObject { object: item.object, revision: 0, cause: item.cause };
            match self.decode(&raw) {
                Ok(entry) => {
                    fresh.insert(entry.object.key(), entry);
                }
                // Of the last version that could be read it is known that it is there.
                Err(error) => {
                    let key = self.unreadable(&raw, &error).map(|meta| meta.key());
                    let known = key.and_then(|key| Some((self.snapshot.get(&key)?.clone(), key)));
                    fresh.extend(known.map(|(entry, key)| (key, entry)));
                }
            }
        }
        self.replace(fresh, listed.revision);
        for reply in waiting {
            let _ = reply.send(listed.revision);
        }
        Ok(Next::Watch)
    }

    /// Takes a list for the truth: tells the differences.
    fn replace(&mut self, fresh: BTreeMap<ObjectKey, Entry<K>>, revision: i64) {
        let initial = self.revision == UNSYNCED;
        let gone: Vec<ObjectKey> =
            self.snapshot.iter().map(|(key, _)| key).filter(|key| !fresh.contains_key(key)).cloned().collect();
        let mut events = Vec::new();
        for key in gone {
            if let Some(old) = self.snapshot.remove(&key, &self.store.indexes) {
                events.push((Change::Deleted(old.object), Cause::default(), revision));
            }
        }
        for (key, entry) in fresh {
            let (object, cause, at) = (entry.object.clone(), entry.cause, entry.revision);
            let known = self.snapshot.get(&key);
            if known.is_some_and(|k| k.revision == at && k.object.uid() == object.uid()) {
                continue;
            }
            match self.snapshot.insert(key, entry, &self.store.indexes) {
                None => events.push((Change::Added(object), cause, at)),
                Some(old) if old.object.uid() == object.uid() => {
                    events.push((Change::Updated { old: old.object, new: object }, cause, at));
                }
                Some(old) => {
                    events.push((Change::Deleted(old.object), Cause::default(), at));
                    events.push((Change::Added(object), cause, at));
                }
            }
        }
        self.store.publish(self.snapshot.clone());
        for (change, cause, at) in events {
            self.tell(change, cause, at, initial);
        }
        self.advance_to(revision);
    }

    // --- watch

    async fn watch(&mut self, backoff: &mut Backoff) -> Result<Next, Error> {
        let mut request = self.request("watch");
        if let Some(options) = request.options.as_object_mut() {
            options.insert("resourceVersion".into(), json!(self.revision.to_string()));
            options.insert("allowWatchBookmarks".into(), json!(true));
            options.insert("timeoutSeconds".into(), json!(rand::random_range(300..600)));
        }
        let client = self.builder.client.clone();
        let mut stream = Box::pin(client.watch(&request)).await?;
        let opened = Instant::now();
        // A question that the stream before did not answer is asked again.
        self.refreshing.extend(self.asked.drain(..).flatten());
        let mut waiting_since = None;
        loop {
            let can_ask = stream.progress.is_some();
            if can_ask && !self.refreshing.is_empty() && stream.ask_progress() {
                self.asked.push_back(std::mem::take(&mut self.refreshing));
            }
            let wants = !self.reaching.is_empty() || !self.refreshing.is_empty();
            let deadline = match (wants, waiting_since) {
                (false, _) => {
                    waiting_since = None;
                    None
                }
                (true, Some(since)) => Some(since),
                (true, None) => {
                    let now = Instant::now();
                    waiting_since = Some(now);
                    Some(now)
                }
            }
            .map(|since| since + if can_ask { PATIENCE } else { PATIENCE_BEFORE_LISTING });
            // Over REST nothing answers a refresh but a list.
            if !can_ask && !self.refreshing.is_empty() {
                return Ok(Next::List);
            }
            tokio::select! {
                event = stream.next() => match event {
                    Some(event) => {
                        self.apply(event?);
                        if waiting_since.is_some() && self.reaching.is_empty() {
                            waiting_since = None;
                        }
                        backoff.reset();
                    }
                    None => {
                        if opened.elapsed() < SHORT && !self.wait(backoff.wait()).await {
                            return Ok(Next::Stop);
                        }
                        return Ok(Next::Watch);
                    }
                },
                command = self.commands.recv() => match command {
                    Some(command) => self.serve(command),
                    None => return Ok(Next::Stop),
                },
                () = sleep_until(deadline) => {
                    if !can_ask {
                        return Ok(Next::List);
                    }
                    waiting_since = Some(Instant::now());
                    // A stream that cannot be asked any more ends, which its reader sees.
                    if stream.ask_progress() {
                        self.asked.push_back(Vec::new());
                    }
                }
            }
        }
    }

    fn apply(&mut self, event: RawEvent) {
        let (raw, deleted) = match event {
            RawEvent::Added(raw) | RawEvent::Modified(raw) => (raw, false),
            RawEvent::Deleted(raw) => (raw, true),
            RawEvent::Bookmark(revision) => {
                self.advance_to(revision);
                return;
            }
            RawEvent::Progress(revision) => {
                self.advance_to(revision);
                for reply in self.asked.pop_front().into_iter().flatten() {
                    let _ = reply.send(revision);
                }
                return;
            }
        };
        let entry = match self.decode(&raw) {
            Ok(entry) => entry,
            Err(error) => {
                self.pass_over(&raw, deleted, &error);
                return;
            }
        };
        let (key, cause) = (entry.object.key(), entry.cause);
        let revision = entry.revision;
        let known = self.snapshot.get(&key);
        if revision <= self.revision && known.is_none_or(|k| deleted || k.revision >= revision) {
            tracing::debug!(%key, revision, seen = self.revision, "an event came twice");
            return;
        }
        let object = entry.object.clone();
        let change = if deleted {
            let old = self.snapshot.remove(&key, &self.store.indexes);
            old.map(|_| Change::Deleted(object))
        } else {
            match self.snapshot.insert(key, entry, &self.store.indexes) {
                None => Some(Change::Added(object)),
                Some(old) => Some(Change::Updated { old: old.object, new: object }),
            }
        };
        self.store.publish(self.snapshot.clone());
        if let Some(change) = change {
            self.tell(change, cause, revision, false);
        }
        self.advance_to(revision);
    }

    /// An object that cannot be read holds nobody up: its last readable version stays, for as long as it is there.
    fn pass_over(&mut self, raw: &RawObject, deleted: bool, error: &Error) {
        let meta = self.unreadable(raw, error);
        let revision = if raw.revision > 0 { raw.revision } else { meta.as_ref().map_or(0, Object::revision) };
        let gone = meta.filter(|_| deleted).and_then(|meta| self.snapshot.remove(&meta.key(), &self.store.indexes));
        if let Some(old) = gone {
            self.store.publish(self.snapshot.clone());
            self.tell(Change::Deleted(old.object), raw.cause, revision, false);
        }
        self.advance_to(revision.max(self.revision));
    }

    /// Reports an object that cannot be read; its metadata, if at least they can be.
    fn unreadable(&self, raw: &RawObject, error: &Error) -> Option<MetaObject> {
        let resource = self.builder.resource.group_resource();
        let meta: Option<MetaObject> = decode(&self.builder.resource.kind, &raw.object).ok();
        let key = meta.as_ref().map(|meta| meta.key().to_string()).unwrap_or_default();
        metrics::counter!("trireme_informer_unreadable_total", "resource" => resource.clone()).increment(1);
        tracing::error!(%resource, key, %error, "an object cannot be read and is passed over");
        meta
    }

    // --- both

    fn decode(&self, raw: &RawObject) -> Result<Entry<K>, Error> {
        let mut object: K = decode(&self.builder.resource.kind, &raw.object)?;
        object.meta_mut().managed_fields = None;
        if let Some(transform) = &self.builder.transform {
            transform(&mut object);
        }
        let revision = if raw.revision > 0 { raw.revision } else { object.revision() };
        Ok(Entry { object: Arc::new(object), cause: raw.cause, revision })
    }

    fn tell(&mut self, change: Change<K>, cause: Cause, revision: i64, initial: bool) {
        let event = Event { change, cause: cause.over(Hop::Informer), revision, initial };
        self.subscribers.retain(|subscriber| subscriber.send(event.clone()));
    }

    fn advance_to(&mut self, revision: i64) {
        if revision > self.revision || self.revision == UNSYNCED {
            self.revision = revision;
        }
        // Also without a step: whoever waits for an object looks again.
        self.advance.send_replace(self.revision);
        self.answer_reached();
    }

    fn answer_reached(&mut self) {
        let revision = self.revision;
        for (_, reply) in self.reaching.extract_if(.., |(wanted, _)| *wanted <= revision) {
            let _ = reply.send(());
        }
    }
}

/// A refusal that tells only that what was followed is out of reach by now.
fn is_expected(code: u16, fleeting: bool, revision: i64) -> bool {
    fleeting && code == 403 && revision != UNSYNCED
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_no_news_once_a_fleeting_object_was_seen() {
        assert!(is_expected(403, true, 7));
        assert!(!is_expected(403, true, UNSYNCED), "it never could be read");
        assert!(!is_expected(403, false, 7) && !is_expected(401, true, 7) && !is_expected(500, true, 7));
    }
}
