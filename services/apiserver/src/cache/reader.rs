//! The cache as authorization, admission and duties see it.

use std::sync::Arc;

use trireme_kinds::Kind;

use super::Cache;
use crate::pipeline::{Reader, Stored};
use crate::storage::keys;

/// Reads from the cache as it is.
#[derive(Clone)]
pub struct CacheReader {
    /// The cache.
    pub cache: Cache,
    /// What all keys begin with.
    pub root: Arc<str>,
}

// === impl CacheReader ===

impl Reader for CacheReader {
    fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Arc<Stored>> {
        self.cache.get(&kind.storage, &keys::key(&self.root, &kind.storage, namespace, name))
    }

    fn list(&self, kind: &Kind, namespace: Option<&str>) -> Vec<Arc<Stored>> {
        let prefix = keys::key(&self.root, &kind.storage, namespace.unwrap_or_default(), "");
        match self.cache.snapshot(&kind.storage) {
            Some((snapshot, _)) => snapshot.items.range(&prefix, "").cloned().collect(),
            None => Vec::new(),
        }
    }

    fn revision(&self, kind: &Kind) -> i64 {
        self.cache.slots.get(&kind.storage).map_or(0, |slot| slot.snapshot.load().revision)
    }

    fn synced(&self) -> bool {
        self.cache.head().synced
    }
}
