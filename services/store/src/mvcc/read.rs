//! Ranges over the state.
use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use trireme_proto::etcdserverpb::range_request::{SortOrder, SortTarget};
use trireme_proto::etcdserverpb::{RangeRequest, RangeResponse, ResponseHeader};
use trireme_proto::mvccpb::KeyValue;

use super::{State, Version, VersionKey};
use crate::error::{Error, Result};

/// A key or a range of keys, as etcd's `key` and `range_end` say it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// The first key.
    pub key: Bytes,
    /// Where it ends.
    pub end: End,
}

/// The end of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// Only the first key itself.
    Single,
    /// Up to this key, without it.
    Before(Bytes),
    /// All keys.
    Open,
}

impl Bounds {
    /// Reads a request's pair.
    pub(crate) fn new(key: Bytes, range_end: &Bytes) -> Self {
        let end = match range_end.as_ref() {
            [] => End::Single,
            [0] => End::Open,
            _ => End::Before(range_end.clone()),
        };
        Self { key, end }
    }

    /// Whether `key` lies inside.
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        match &self.end {
            End::Single => self.key == key,
            End::Before(end) => key >= self.key.as_ref() && key < end.as_ref(),
            End::Open => key >= self.key.as_ref(),
        }
    }

    /// Whether no key can lie inside.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(&self.end, End::Before(end) if *end <= self.key)
    }

    fn as_range(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        let end = match &self.end {
            End::Single => Bound::Included(self.key.as_ref()),
            End::Before(end) => Bound::Excluded(end.as_ref()),
            End::Open => Bound::Unbounded,
        };
        (Bound::Included(self.key.as_ref()), end)
    }
}

/// What a range asks for, beside its bounds and revision.
pub(crate) struct RangeQuery<'a>(pub &'a RangeRequest);

impl RangeQuery<'_> {
    /// No order asked for, or the one that keys are stored in.
    fn in_stored_order(&self) -> bool {
        let (target, order) = (self.0.sort_target(), self.0.sort_order());
        order == SortOrder::None || (target, order) == (SortTarget::Key, SortOrder::Ascend)
    }

    fn has_filters(&self) -> bool {
        let r = self.0;
        r.min_mod_revision != 0 || r.max_mod_revision != 0 || r.min_create_revision != 0 || r.max_create_revision != 0
    }

    /// Whether keys come in order and none is left out, so that a limit ends the search.
    pub(crate) fn is_plain(&self) -> Result<(), &'static str> {
        if !self.in_stored_order() {
            return Err("RangeStream does not support custom sort orders");
        }
        if self.has_filters() {
            return Err("RangeStream does not support revision filters");
        }
        Ok(())
    }

    fn keeps(&self, version: &Version) -> bool {
        let r = self.0;
        let within = |value: i64, min: i64, max: i64| (min == 0 || value >= min) && (max == 0 || value <= max);
        within(version.main, r.min_mod_revision, r.max_mod_revision)
            && within(version.create_revision, r.min_create_revision, r.max_create_revision)
    }

    /// A key as it is answered. As in etcd, asking for keys only leaves out the lease too, but not when sorted by value.
    fn show(&self, version: &Version) -> KeyValue {
        let r = self.0;
        if !r.keys_only {
            return version.to_key_value();
        }
        KeyValue {
            key: version.key.clone(),
            create_revision: version.create_revision,
            mod_revision: version.main,
            version: version.version,
            lease: if r.sort_target() == SortTarget::Value { version.lease } else { 0 },
            ..Default::default()
        }
    }

    fn sort(&self, found: &mut [Arc<Version>]) {
        let target = self.0.sort_target();
        if target == SortTarget::Key && self.in_stored_order() {
            return;
        }
        let compare = |a: &Arc<Version>, b: &Arc<Version>| -> Ordering {
            match target {
                SortTarget::Key => a.key.cmp(&b.key),
                SortTarget::Version => a.version.cmp(&b.version),
                SortTarget::Create => a.create_revision.cmp(&b.create_revision),
                SortTarget::Mod => a.main.cmp(&b.main),
                SortTarget::Value => a.value.cmp(&b.value),
            }
        };
        match self.0.sort_order() {
            SortOrder::Descend => found.sort_by(|a, b| compare(b, a)),
            SortOrder::None | SortOrder::Ascend => found.sort_by(compare),
        }
    }
}

impl State {
    /// Answers a range request. `pending` is the revision that a transaction under way will get.
    pub(crate) fn range(&self, request: &RangeRequest, pending: Option<i64>) -> Result<RangeResponse> {
        let current = pending.unwrap_or(self.revision);
        if request.revision > current {
            return Err(Error::FutureRevision);
        }
        let at = if request.revision <= 0 { current } else { request.revision };
        if at < self.compacted {
            return Err(Error::Compacted);
        }
        let query = RangeQuery(request);
        let bounds = Bounds::new(request.key.clone(), &request.range_end);
        let limit = usize::try_from(request.limit).ok().filter(|l| *l > 0);
        let cut = limit.filter(|_| query.in_stored_order() && !query.has_filters()).map(|l| l.saturating_add(1));
        let (mut found, mut count) = (Vec::new(), 0);
        let mut take = |version: &Arc<Version>| {
            count += 1;
            if !request.count_only && cut.is_none_or(|cut| found.len() < cut) && query.keeps(version) {
                found.push(version.clone());
            }
        };
        if at >= current {
            self.each_live(&bounds, &mut take);
        } else {
            self.each_at(&bounds, at, &mut take);
        }
        query.sort(&mut found);
        let more = limit.is_some_and(|l| found.len() > l);
        if let Some(limit) = limit {
            found.truncate(limit);
        }
        let kvs = found.iter().map(|v| query.show(v)).collect();
        let header = Some(ResponseHeader { revision: current, ..Default::default() });
        Ok(RangeResponse { header, kvs, more, count })
    }

    /// The newest version of a key, if it exists.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Arc<Version>> {
        self.live.get(key)
    }

    /// The newest versions of all keys in the bounds, in key order.
    pub(super) fn each_live(&self, bounds: &Bounds, take: &mut impl FnMut(&Arc<Version>)) {
        if bounds.end == End::Single {
            self.live.get(&bounds.key).into_iter().for_each(take);
        } else if !bounds.is_empty() {
            self.live.range::<_, [u8]>(bounds.as_range()).for_each(|(_, version)| take(version));
        }
    }

    /// The versions of all keys in the bounds as they were at a revision, in key order.
    fn each_at(&self, bounds: &Bounds, at: i64, take: &mut impl FnMut(&Arc<Version>)) {
        if bounds.is_empty() {
            return;
        }
        let mut from = (bounds.key.clone(), i64::MIN, i64::MIN);
        while let Some(((key, _, _), _)) = self.versions.range::<_, VersionKey>(&from..).next() {
            if !bounds.contains(key) {
                return;
            }
            let key = key.clone();
            if let Some(version) = self.version_at(&key, at).filter(|v| !v.is_deletion()) {
                take(version);
            }
            from = (key, i64::MAX, i64::MAX);
        }
    }

    /// The last version of a key, deletions included, at a revision.
    pub(super) fn version_at(&self, key: &Bytes, at: i64) -> Option<&Arc<Version>> {
        let last = (key.clone(), at, i64::MAX);
        let (found, version) = self.versions.get_prev(&last)?;
        (found.0 == *key).then_some(version)
    }
}
