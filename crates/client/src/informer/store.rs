//! What readers see of an informer.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::snapshot::{Entry, IndexFn, Snapshot};
use crate::key::ObjectKey;

/// The objects of an informer. Reading never waits; each call sees one whole state.
pub struct Store<K> {
    current: Arc<ArcSwap<Snapshot<K>>>,
    pub(super) indexes: Arc<[(&'static str, IndexFn<K>)]>,
}

impl<K> Clone for Store<K> {
    fn clone(&self) -> Self {
        Self { current: self.current.clone(), indexes: self.indexes.clone() }
    }
}

impl<K> std::fmt::Debug for Store<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Store({} objects)", self.current.load().len())
    }
}

impl<K> Store<K> {
    pub(super) fn new(indexes: Vec<(&'static str, IndexFn<K>)>) -> Self {
        Self { current: Arc::new(ArcSwap::from_pointee(Snapshot::default())), indexes: indexes.into() }
    }

    pub(super) fn publish(&self, snapshot: Snapshot<K>) {
        self.current.store(Arc::new(snapshot));
    }

    /// A store that no informer feeds, with these objects: for tests of what reads stores.
    #[must_use]
    pub fn of(indexes: Vec<(&'static str, IndexFn<K>)>, objects: impl IntoIterator<Item = K>) -> Self
    where
        K: crate::object::Object,
    {
        let store = Self::new(indexes);
        let mut snapshot = Snapshot::default();
        for object in objects {
            let (key, revision) = (object.key(), object.revision());
            let entry = Entry { object: Arc::new(object), cause: trireme_telemetry::Cause::default(), revision };
            snapshot.insert(key, entry, &store.indexes);
        }
        store.publish(snapshot);
        store
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.current.load().len()
    }

    /// There is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The object at a key.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.current.load().get(key).map(|entry| entry.object.clone())
    }

    /// The object of a name in a namespace (empty for the cluster's).
    #[must_use]
    pub fn find(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.get(&ObjectKey::new(namespace, name))
    }

    /// The object at a key with the cause and revision of its version.
    #[must_use]
    pub fn entry(&self, key: &ObjectKey) -> Option<Entry<K>> {
        self.current.load().get(key).cloned()
    }

    /// All objects, in the order of their keys.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<K>> {
        self.current.load().iter().map(|(_, entry)| entry.object.clone()).collect()
    }

    /// All entries, in the order of their keys.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry<K>> {
        self.current.load().iter().map(|(_, entry)| entry.clone()).collect()
    }

    /// The objects of a namespace, in the order of their names.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        self.current.load().in_namespace(namespace).map(|entry| entry.object.clone()).collect()
    }

    /// The objects for which the index of this name says `value`.
    #[must_use]
    pub fn by_index(&self, name: &'static str, value: &str) -> Vec<Arc<K>> {
        self.current.load().by_index(name, value).map(|entry| entry.object.clone()).collect()
    }
}
