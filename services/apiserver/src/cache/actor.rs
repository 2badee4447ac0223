//! The cache's one writer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{mpsc, watch};
use trireme_kinds::Registry;
use trireme_proto::mvccpb::event::EventType;
use trireme_proto::mvccpb::{self, KeyValue};
use trireme_telemetry::{Cause, Hop, Kind, Parent, SpanExt as _};

use super::resource::Resource;
use super::{Cache, Head, Slot, Subscribe, Unreadable};
use crate::error::Error;
use crate::storage::codec::Codec;
use crate::storage::follow::{Feed, key_of};
use crate::storage::{Sealing, causes, keys};

/// How many steps of the feed are taken before anything is published.
const BATCH: usize = 256;
const COMMANDS: usize = 256;
/// How often watchers that went away are forgotten where nothing happens.
const SWEEP: Duration = Duration::from_secs(30);

/// Owns the resources. Run it with [`Actor::run`].
pub struct Actor {
    root: String,
    sealing: Sealing,
    resources: HashMap<String, Resource>,
    head: watch::Sender<Head>,
    target: i64,
    commands: mpsc::Receiver<Subscribe>,
    feed: mpsc::Receiver<Feed>,
}

// === impl Actor ===

impl Actor {
    /// The cache of all stored kinds, and of those that are stored without being served; and its actor.
    pub fn new(
        kinds: &Registry,
        unserved: impl IntoIterator<Item = Arc<trireme_kinds::Kind>>,
        root: &str,
        sealing: Sealing,
        feed: mpsc::Receiver<Feed>,
    ) -> (Cache, Self) {
        let slots: HashMap<String, Arc<Slot>> = codecs(kinds)
            .chain(unserved.into_iter().map(Codec::new))
            .map(|codec| {
                let resource = codec.kind.storage.clone();
                (resource, Arc::new(Slot { codec, snapshot: ArcSwap::default() }))
            })
            .collect();
        let resources = slots.iter().map(|(name, slot)| (name.clone(), Resource::new(slot.clone()))).collect();
        let (head, heads) = watch::channel(Head::default());
        let (sender, commands) = mpsc::channel(COMMANDS);
        let cache = Cache { slots: Arc::new(slots), head: heads, commands: sender };
        let actor = Self { root: root.to_owned(), sealing, resources, head, target: i64::MAX, commands, feed };
        (cache, actor)
    }

    /// Works until the feed ends.
    pub async fn run(mut self) {
        let mut batch = Vec::with_capacity(BATCH);
        let mut sweep = tokio::time::interval(SWEEP);
        loop {
            tokio::select! {
                taken = self.feed.recv_many(&mut batch, BATCH) => {
                    if taken == 0 {
                        return;
                    }
                    self.apply(batch.drain(..));
                }
                Some(command) = self.commands.recv() => self.subscribe(command),
                _ = sweep.tick() => self.resources.values_mut().for_each(Resource::sweep),
            }
        }
    }

    fn apply(&mut self, batch: impl Iterator<Item = Feed>) {
        let mut head = *self.head.borrow();
        for step in batch {
            match step {
                Feed::Reset { items, revision, target } => {
                    self.reset(items, revision);
                    self.target = target;
                    head = Head { revision, synced: false };
                }
                Feed::Revision { revision, events } => {
                    // Doubled messages end here.
                    if revision > head.revision {
                        self.revision(revision, events);
                        head.revision = revision;
                    }
                }
                Feed::Progress(revision) => head.revision = head.revision.max(revision),
            }
        }
        head.synced |= head.revision >= self.target;
        self.resources.values_mut().for_each(Resource::publish);
        self.head.send_replace(head);
    }

    fn reset(&mut self, items: Vec<KeyValue>, revision: i64) {
        let mut sorted: HashMap<&str, Vec<_>> = HashMap::new();
        let mut unreadable: HashMap<String, Unreadable> = HashMap::new();
        for kv in &items {
            match self.read(kv) {
                Some((resource, Ok(stored))) => sorted.entry(resource).or_default().push(Arc::new(stored)),
                Some((resource, Err(why))) => {
                    let key = key_of(kv).unwrap_or_default().into();
                    unreadable.entry(resource.to_owned()).or_default().insert(key, why);
                }
                None => {}
            }
        }
        let mut sorted: HashMap<String, Vec<_>> = sorted.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
        for (name, resource) in &mut self.resources {
            let unreadable = unreadable.remove(name).unwrap_or_default();
            resource.reset(sorted.remove(name).unwrap_or_default(), unreadable, revision);
        }
        tracing::info!(revision, keys = items.len(), "the watch cache was filled");
    }

    fn revision(&mut self, revision: i64, events: Vec<mvccpb::Event>) {
        let mut told = 0;
        let mut span = None;
        for event in events {
            let Some(kv) = &event.kv else { continue };
            let cause = read_cause(kv);
            if span.is_none() {
                span = dispatch_span(cause.as_deref(), revision);
            }
            let _entered = span.as_ref().map(tracing::Span::enter);
            let reach = if event.r#type() == EventType::Delete {
                let Some(resource) = self.resource_of(kv) else { continue };
                let Some(key) = key_of(kv) else { continue };
                let Some(resource) = self.resources.get_mut(&resource) else { continue };
                resource.delete(key, revision, cause)
            } else {
                let Some((resource, read)) = self.read(kv) else { continue };
                let resource = resource.to_owned();
                let Some(resource) = self.resources.get_mut(&resource) else { continue };
                match read {
                    Ok(stored) => resource.put(stored),
                    Err(why) => {
                        resource.lose(key_of(kv).unwrap_or_default(), why, revision);
                        continue;
                    }
                }
            };
            told += reach.told;
            if reach.cut > 0 {
                metrics::counter!("apiserver_terminated_watchers_total").increment(reach.cut as u64);
                tracing::warn!(watchers = reach.cut, "cut off watchers that were too slow");
            }
        }
        if let Some(span) = span {
            span.attribute("watch.told", i64::try_from(told).unwrap_or(i64::MAX));
        }
    }

    fn resource_of(&self, kv: &KeyValue) -> Option<String> {
        let key = key_of(kv)?;
        keys::resources(&self.root, key)
            .map(|(name, _)| name)
            .find(|name| self.resources.contains_key(*name))
            .map(str::to_owned)
    }

    /// The resource of a stored value, and the value read, or why it can't be.
    fn read<'a>(&self, kv: &'a KeyValue) -> Option<(&'a str, Result<crate::pipeline::Stored, String>)> {
        let key = key_of(kv)?;
        let (name, resource) =
            keys::resources(&self.root, key).find_map(|(name, _)| Some((name, self.resources.get(name)?)))?;
        let codec = &resource.slot.codec;
        let read = self
            .sealing
            .open(&codec.kind.group_resource(), key, kv.value.clone())
            .and_then(|value| codec.read(key, &value, kv.mod_revision, read_cause(kv)));
        if let Err(error) = &read {
            tracing::error!(%error, "a stored value can't be read and is not served");
        }
        Some((
            name,
            read.map_err(|error| match error {
                Error::Value { source, .. } => source.to_string(),
                other => other.to_string(),
            }),
        ))
    }

    fn subscribe(&mut self, command: Subscribe) {
        let head = self.head.borrow().revision;
        let Some(resource) = self.resources.get_mut(&command.resource) else { return };
        let _ = command.reply.send(resource.subscribe(command.selection, command.begin, head));
        metrics::gauge!("apiserver_longrunning_requests", "resource" => command.resource)
            .set(resource.watchers() as f64);
    }
}

/// One codec for each place in the store: of the kind in the version that is stored.
fn codecs(kinds: &Registry) -> impl Iterator<Item = Codec> {
    let mut chosen: HashMap<String, Arc<trireme_kinds::Kind>> = HashMap::new();
    for kind in kinds.iter().filter(|kind| !kind.storage.is_empty()) {
        let known = chosen.get(&kind.storage).is_some_and(|known| known.api_version() == known.storage_version);
        if !known {
            chosen.insert(kind.storage.clone(), kind.clone());
        }
    }
    chosen.into_values().map(Codec::new)
}

fn read_cause(kv: &KeyValue) -> Option<Arc<Cause>> {
    let cause = causes::from_store(kv.cause.as_ref()?)?.over(Hop::Bus);
    (!cause.is_empty()).then(|| Arc::new(cause))
}

/// The span of handing a revision on, a child of what wrote it. None where nothing is traced.
fn dispatch_span(cause: Option<&Cause>, revision: i64) -> Option<tracing::Span> {
    let parent = cause?.cause?;
    let span = trireme_telemetry::span("watch.dispatch").kind(Kind::Consumer).parent(Parent::Remote(parent));
    Some(span.attribute("revision", revision).start())
}
