//! Changes of the state within one transaction.
use std::sync::Arc;

use bytes::Bytes;
use trireme_proto::store::v1::Cause;

use super::{Bounds, Change, State, Version};

/// A transaction that writes. Its changes show in the state at once; [`WriteTxn::finish`] makes them a revision.
pub(super) struct WriteTxn<'a> {
    state: &'a mut State,
    changes: Vec<Change>,
}

impl<'a> WriteTxn<'a> {
    pub(super) fn new(state: &'a mut State) -> Self {
        Self { state, changes: Vec::new() }
    }

    pub(super) fn state(&self) -> &State {
        self.state
    }

    /// The revision as seen from inside: the coming one as soon as something changed.
    pub(super) fn revision(&self) -> i64 {
        self.state.revision + i64::from(!self.changes.is_empty())
    }

    pub(super) fn put(&mut self, key: Bytes, value: Bytes, lease: i64, cause: Option<Cause>) {
        let main = self.state.revision + 1;
        let before = self.state.live.get(&key).cloned();
        let (create_revision, version) = before.as_ref().map_or((main, 1), |v| (v.create_revision, v.version + 1));
        // Own copies: the request's buffer may hold much more than this key and value.
        let version = Arc::new(Version {
            key: before.as_ref().map_or_else(|| Bytes::copy_from_slice(&key), |v| v.key.clone()),
            main,
            sub: self.changes.len() as i64,
            create_revision,
            version,
            value: Bytes::copy_from_slice(&value),
            lease,
            cause: cause.map(Box::new),
        });
        let old_lease = before.as_ref().map_or(0, |v| v.lease);
        if old_lease != lease {
            self.state.detach(old_lease, &version.key);
            if let Some(lease) = self.state.leases.get_mut(&lease) {
                lease.keys.insert(version.key.clone());
            }
        }
        self.state.live_size += version.size();
        self.state.live_size -= before.map_or(0, |v| v.size());
        self.state.live.insert(version.key.clone(), version.clone());
        self.record(version);
    }

    /// Deletes all keys in the bounds; answers how many.
    pub(super) fn delete(&mut self, bounds: &Bounds, cause: Option<&Cause>) -> i64 {
        let mut found = Vec::new();
        self.state.each_live(bounds, &mut |version| found.push(version.clone()));
        for version in &found {
            self.delete_one(version, cause);
        }
        found.len() as i64
    }

    pub(super) fn delete_one(&mut self, before: &Arc<Version>, cause: Option<&Cause>) {
        let deletion = Arc::new(Version {
            key: before.key.clone(),
            main: self.state.revision + 1,
            sub: self.changes.len() as i64,
            create_revision: 0,
            version: 0,
            value: Bytes::new(),
            lease: 0,
            cause: cause.cloned().map(Box::new),
        });
        self.state.detach(before.lease, &before.key);
        self.state.live_size -= before.size();
        self.state.live.remove(&before.key);
        self.record(deletion);
    }

    fn record(&mut self, version: Arc<Version>) {
        let previous = self.state.version_at(&version.key, self.state.revision).filter(|v| !v.is_deletion()).cloned();
        self.state.size += version.size();
        self.state.versions.insert((version.key.clone(), version.main, version.sub), version.clone());
        self.changes.push(Change { version, previous });
    }

    /// Ends the transaction; answers the revision after it and what changed.
    pub(super) fn finish(self) -> Option<Arc<[Change]>> {
        if self.changes.is_empty() {
            return None;
        }
        let changes: Arc<[Change]> = self.changes.into();
        self.state.revision += 1;
        self.state.log.insert(self.state.revision, changes.clone());
        Some(changes)
    }
}

impl State {
    fn detach(&mut self, lease: i64, key: &Bytes) {
        if let Some(lease) = self.leases.get_mut(&lease).filter(|_| lease != 0) {
            lease.keys.remove(key);
        }
    }
}
