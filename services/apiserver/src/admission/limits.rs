//! The objects that limit a namespace: seldom more than a few, often none.
//!
//! Where the cache has none, there may be one that it has not heard of yet: the store is asked, as upstream does. What it
//! said counts for a moment, so that a namespace without limits costs one read a moment, not one a write.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use trireme_kinds::Kind;
use trireme_machinery::status::Status;

use crate::pipeline::{Objects, Stored};

/// How long the store's word counts that a namespace has no limits. Upstream's is 30 seconds, its reads being dear.
const MEMORY: Duration = Duration::from_secs(1);
/// When this many namespaces are known, those are forgotten of which too long nothing was heard.
const KNOWN: usize = 1024;

/// Finds the limits of namespaces.
pub(super) struct Limits {
    objects: Arc<dyn Objects>,
    kind: Arc<Kind>,
    without: Mutex<HashMap<String, Instant>>,
}

impl Limits {
    /// Finds objects of `kind`.
    pub(super) fn new(objects: Arc<dyn Objects>, kind: Arc<Kind>) -> Self {
        Self { objects, kind, without: Mutex::default() }
    }

    /// Those of a namespace.
    pub(super) async fn of(&self, namespace: &str) -> Result<Vec<Arc<Stored>>, Status> {
        let cached = self.objects.reader().list(&self.kind, Some(namespace));
        // Asked before the read began, so that what is made meanwhile is looked for again.
        let now = Instant::now();
        if !cached.is_empty() || self.without.lock().get(namespace).is_some_and(|asked| now - *asked < MEMORY) {
            return Ok(cached);
        }
        let found = self.objects.list(&self.kind, namespace).await?;
        if found.is_empty() {
            let mut without = self.without.lock();
            if without.len() >= KNOWN {
                without.retain(|_, asked| now - *asked < MEMORY);
            }
            if without.len() < KNOWN {
                without.insert(namespace.to_owned(), now);
            }
        }
        Ok(found)
    }
}
