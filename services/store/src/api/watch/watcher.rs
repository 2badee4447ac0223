//! One watch: which changes it wants to see, and how.
use std::sync::Arc;

use prost::Message;
use trireme_proto::etcdserverpb::WatchCreateRequest;
use trireme_proto::etcdserverpb::WatchResponse;
use trireme_proto::etcdserverpb::watch_create_request::FilterType;
use trireme_proto::mvccpb::Event;

use crate::mvcc::{Bounds, Change};

/// Size at which a response is cut into fragments, for watches that take them.
const FRAGMENT: usize = 2 << 20;

/// A watch that is open.
pub(super) struct Watcher {
    bounds: Bounds,
    /// The first revision it wants.
    pub(super) from: i64,
    puts: bool,
    deletes: bool,
    previous: bool,
    pub(super) fragment: bool,
    pub(super) progress: bool,
    /// Nothing was sent since the last progress tick.
    pub(super) idle: bool,
}

impl Watcher {
    /// Reads a request. Nothing if its range is empty.
    pub(super) fn new(request: &WatchCreateRequest, from: i64) -> Option<Self> {
        // An empty key stands for the first one there can be.
        let key = if request.key.is_empty() { bytes::Bytes::from_static(&[0]) } else { request.key.clone() };
        let bounds = Bounds::new(key, &request.range_end);
        let without = |filter: FilterType| request.filters.contains(&(filter as i32));
        (!bounds.is_empty()).then(|| Self {
            bounds,
            from,
            puts: !without(FilterType::Noput),
            deletes: !without(FilterType::Nodelete),
            previous: request.prev_kv,
            fragment: request.fragment,
            progress: request.progress_notify,
            idle: true,
        })
    }

    /// What it sees of some revisions. Of `stripped` and before it no previous versions are known.
    pub(super) fn events(&self, revisions: &[(i64, Arc<[Change]>)], stripped: i64) -> Vec<Event> {
        let wanted = revisions.iter().filter(|(revision, _)| *revision >= self.from);
        let wanted = wanted.flat_map(|(revision, changes)| changes.iter().map(move |change| (*revision, change)));
        wanted
            .filter(|(_, change)| self.sees(change))
            .map(|(revision, change)| change.to_event(self.previous && revision > stripped))
            .collect()
    }

    fn sees(&self, change: &Change) -> bool {
        let kind = if change.version.is_deletion() { self.deletes } else { self.puts };
        kind && self.bounds.contains(&change.version.key)
    }
}

/// Cuts a response into parts that are below the size of a fragment where that is possible.
pub(super) fn fragments(mut response: WatchResponse) -> Vec<WatchResponse> {
    if response.encoded_len() < FRAGMENT {
        return vec![response];
    }
    let events = std::mem::take(&mut response.events);
    let empty = response.encoded_len();
    let (mut parts, mut size) = (vec![response.clone()], empty);
    for event in events {
        let length = event.encoded_len() + 6;
        let is_first = parts.last().is_none_or(|part| part.events.is_empty());
        if !is_first && size + length >= FRAGMENT {
            parts.push(response.clone());
            size = empty;
        }
        size += length;
        if let Some(part) = parts.last_mut() {
            part.events.push(event);
        }
    }
    let last = parts.len() - 1;
    parts[..last].iter_mut().for_each(|part| part.fragment = true);
    parts
}
