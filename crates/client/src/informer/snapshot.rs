//! One immutable state of an informer's objects. A change makes a new one that shares all but a path of the tree.

use std::ops::Bound;
use std::sync::Arc;

use rpds::RedBlackTreeMapSync;
use trireme_telemetry::Cause;

use crate::key::ObjectKey;

/// What an index says about an object.
pub type IndexFn<K> = Arc<dyn Fn(&K) -> Vec<String> + Send + Sync>;

/// An object with what is known about its version.
#[derive(Debug)]
pub struct Entry<K> {
    /// The object.
    pub object: Arc<K>,
    /// What caused this version.
    pub cause: Cause,
    /// Its revision.
    pub revision: i64,
}

impl<K> Clone for Entry<K> {
    fn clone(&self) -> Self {
        Self { object: self.object.clone(), cause: self.cause, revision: self.revision }
    }
}

type Keys = RedBlackTreeMapSync<ObjectKey, ()>;

/// See the module.
pub(super) struct Snapshot<K> {
    objects: RedBlackTreeMapSync<ObjectKey, Entry<K>>,
    /// (index, value) → keys.
    index: RedBlackTreeMapSync<(&'static str, String), Keys>,
}

impl<K> Clone for Snapshot<K> {
    fn clone(&self) -> Self {
        Self { objects: self.objects.clone(), index: self.index.clone() }
    }
}

impl<K> Default for Snapshot<K> {
    fn default() -> Self {
        Self { objects: RedBlackTreeMapSync::new_sync(), index: RedBlackTreeMapSync::new_sync() }
    }
}

impl<K> Snapshot<K> {
    pub(super) fn len(&self) -> usize {
        self.objects.size()
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Entry<K>> {
        self.objects.get(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &Entry<K>)> {
        self.objects.iter()
    }

    pub(super) fn in_namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Entry<K>> {
        let from = ObjectKey::new(namespace, "");
        self.objects
            .range((Bound::Included(from), Bound::Unbounded))
            .take_while(move |(key, _)| key.namespace == namespace)
            .map(|(_, entry)| entry)
    }

    pub(super) fn by_index<'a>(&'a self, name: &'static str, value: &str) -> impl Iterator<Item = &'a Entry<K>> {
        let keys = self.index.get(&(name, value.to_owned()));
        keys.into_iter().flat_map(Keys::keys).filter_map(|key| self.objects.get(key))
    }

    /// Puts an object in; gives back what was there.
    pub(super) fn insert(
        &mut self,
        key: ObjectKey,
        entry: Entry<K>,
        indexes: &[(&'static str, IndexFn<K>)],
    ) -> Option<Entry<K>> {
        let old = self.objects.get(&key).cloned();
        for (name, values) in indexes {
            let before = old.as_ref().map(|e| values(&e.object)).unwrap_or_default();
            let after = values(&entry.object);
            before.iter().filter(|v| !after.contains(v)).for_each(|v| self.unindex(name, v, &key));
            for value in after.into_iter().filter(|v| !before.contains(v)) {
                let slot = (*name, value);
                let mut keys = self.index.get(&slot).cloned().unwrap_or_else(Keys::new_sync);
                keys.insert_mut(key.clone(), ());
                self.index.insert_mut(slot, keys);
            }
        }
        self.objects.insert_mut(key, entry);
        old
    }

    /// Takes an object out.
    pub(super) fn remove(&mut self, key: &ObjectKey, indexes: &[(&'static str, IndexFn<K>)]) -> Option<Entry<K>> {
        let old = self.objects.get(key).cloned()?;
        for (name, values) in indexes {
            values(&old.object).iter().for_each(|value| self.unindex(name, value, key));
        }
        self.objects.remove_mut(key);
        Some(old)
    }

    fn unindex(&mut self, name: &'static str, value: &str, key: &ObjectKey) {
        let slot = (name, value.to_owned());
        let Some(mut keys) = self.index.get(&slot).cloned() else { return };
        keys.remove_mut(key);
        if keys.is_empty() {
            self.index.remove_mut(&slot);
        } else {
            self.index.insert_mut(slot, keys);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(labels: &str) -> Entry<String> {
        Entry { object: Arc::new(labels.to_owned()), cause: Cause::default(), revision: 1 }
    }

    #[test]
    fn indexes_follow_changes_and_old_snapshots_stay() {
        let words: IndexFn<String> = Arc::new(|text: &String| text.split(' ').map(str::to_owned).collect());
        let indexes = [("word", words)];
        let key = ObjectKey::new("a", "x");
        let mut snapshot = Snapshot::default();
        snapshot.insert(key.clone(), entry("red blue"), &indexes);
        let before = snapshot.clone();
        snapshot.insert(key.clone(), entry("blue green"), &indexes);
        assert_eq!(snapshot.by_index("word", "red").count(), 0);
        assert_eq!(snapshot.by_index("word", "green").count(), 1);
        assert_eq!(before.by_index("word", "red").count(), 1);
        snapshot.remove(&key, &indexes);
        assert!(snapshot.index.is_empty());
    }

    #[test]
    fn a_namespace_is_a_range() {
        let mut snapshot = Snapshot::default();
        for (namespace, name) in [("", "n"), ("a", "x"), ("a", "y"), ("a-b", "z"), ("b", "x")] {
            snapshot.insert(ObjectKey::new(namespace, name), entry(name), &[]);
        }
        let names: Vec<String> = snapshot.in_namespace("a").map(|e| (*e.object).clone()).collect();
        assert_eq!(names, ["x", "y"]);
    }
}
