//! An ordered map of objects whose clones are cheap and never change: what the cache publishes.
//!
//! Two levels: a list of chunks, each a sorted list of objects. A change copies one chunk and, when a snapshot still holds
//! it, the list of chunks.

use std::sync::Arc;

use crate::pipeline::Stored;

/// A chunk is split when it grows past this.
const FULL: usize = 256;

type Chunk = Arc<Vec<Arc<Stored>>>;

/// Objects by key.
#[derive(Debug, Clone, Default)]
pub struct Ordered {
    chunks: Arc<Vec<Chunk>>,
    len: usize,
}

// === impl Ordered ===

impl Ordered {
    /// From objects that are sorted by key.
    pub fn from_sorted(items: Vec<Arc<Stored>>) -> Self {
        let len = items.len();
        let chunks = items.chunks(FULL / 2).map(|chunk| Arc::new(chunk.to_vec())).collect();
        Self { chunks: Arc::new(chunks), len }
    }

    /// How many objects.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The object at a key.
    pub fn get(&self, key: &str) -> Option<&Arc<Stored>> {
        let chunk = self.chunks.get(self.chunk_of(key)?)?;
        let at = chunk.binary_search_by(|item| (*item.key).cmp(key)).ok()?;
        chunk.get(at)
    }

    /// Puts an object in; answers the one that was there.
    pub fn insert(&mut self, item: Arc<Stored>) -> Option<Arc<Stored>> {
        let chunks = Arc::make_mut(&mut self.chunks);
        let Some(index) = chunk_of(chunks, &item.key) else {
            chunks.push(Arc::new(vec![item]));
            self.len = 1;
            return None;
        };
        let chunk = Arc::make_mut(&mut chunks[index]);
        match chunk.binary_search_by(|other| other.key.cmp(&item.key)) {
            Ok(at) => Some(std::mem::replace(&mut chunk[at], item)),
            Err(at) => {
                chunk.insert(at, item);
                self.len += 1;
                if chunk.len() > FULL {
                    let tail = chunk.split_off(FULL / 2);
                    chunks.insert(index + 1, Arc::new(tail));
                }
                None
            }
        }
    }

    /// Takes an object out.
    pub fn remove(&mut self, key: &str) -> Option<Arc<Stored>> {
        let index = self.chunk_of(key)?;
        let at = self.chunks[index].binary_search_by(|other| (*other.key).cmp(key)).ok()?;
        let chunks = Arc::make_mut(&mut self.chunks);
        let chunk = Arc::make_mut(&mut chunks[index]);
        let removed = chunk.remove(at);
        if chunk.is_empty() {
            chunks.remove(index);
        }
        self.len -= 1;
        Some(removed)
    }

    /// All objects, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Stored>> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// The objects whose key begins with `prefix`, in order, from behind the key `after` on (empty: from the first).
    pub fn range<'a>(&'a self, prefix: &'a str, after: &str) -> impl Iterator<Item = &'a Arc<Stored>> {
        let start = if after > prefix { after } else { prefix };
        let first = self.chunk_of(start).unwrap_or(0);
        let offset = self.chunks.get(first).map_or(0, |chunk| {
            chunk.partition_point(|item| &*item.key < start || (!after.is_empty() && &*item.key == after))
        });
        let head = self.chunks.get(first).map(|chunk| &chunk[offset..]).unwrap_or_default();
        let tail = self.chunks.get(first + 1..).unwrap_or_default().iter().flat_map(|chunk| chunk.iter());
        head.iter().chain(tail).take_while(move |item| item.key.starts_with(prefix))
    }

    fn chunk_of(&self, key: &str) -> Option<usize> {
        chunk_of(&self.chunks, key)
    }
}

/// The chunk that holds a key, or would; None when there are no chunks.
fn chunk_of(chunks: &[Chunk], key: &str) -> Option<usize> {
    if chunks.is_empty() {
        return None;
    }
    let behind = chunks.partition_point(|chunk| chunk.first().is_some_and(|item| &*item.key <= key));
    Some(behind.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::cache::testing::stored;

    proptest! {
        #[test]
        fn it_is_a_sorted_map(ops in proptest::collection::vec((0u32..700, any::<bool>()), 0..1500), after in 0u32..700) {
            let mut ours = Ordered::default();
            let mut theirs = BTreeMap::new();
            for (number, put) in ops {
                let key = format!("/registry/pods/a/{number:04}");
                if put {
                    ours.insert(Arc::new(stored(&key, i64::from(number))));
                    theirs.insert(key, i64::from(number));
                } else {
                    prop_assert_eq!(ours.remove(&key).is_some(), theirs.remove(&key).is_some());
                }
            }
            prop_assert_eq!(ours.len(), theirs.len());
            let keys: Vec<&str> = ours.iter().map(|item| &*item.key).collect();
            prop_assert_eq!(keys, theirs.keys().map(String::as_str).collect::<Vec<_>>());
            let after = format!("/registry/pods/a/{after:04}");
            let behind: Vec<&str> = ours.range("/registry/pods/a/", &after).map(|item| &*item.key).collect();
            prop_assert_eq!(behind, theirs.keys().map(String::as_str).filter(|key| **key > *after).collect::<Vec<_>>());
            prop_assert_eq!(ours.range("/registry/pods/a/", "").count(), theirs.len());
            prop_assert_eq!(ours.range("/registry/pods/b/", "").count(), 0);
        }
    }

    #[test]
    fn a_clone_does_not_change() {
        let mut map = Ordered::default();
        map.insert(Arc::new(stored("/a/1", 1)));
        let before = map.clone();
        map.insert(Arc::new(stored("/a/2", 2)));
        map.remove("/a/1");
        assert_eq!(before.iter().map(|item| item.revision).collect::<Vec<_>>(), [1]);
        assert_eq!(map.iter().map(|item| item.revision).collect::<Vec<_>>(), [2]);
    }
}
