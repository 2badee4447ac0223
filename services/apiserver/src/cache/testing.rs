//! Objects for this module's tests.

use std::sync::Arc;

use arc_swap::ArcSwap;
use serde_json::json;
use trireme_kinds::Registry;

use super::Slot;
use crate::pipeline::Stored;
use crate::storage::codec::Codec;

pub(crate) fn codec() -> Codec {
    Codec::new(Registry::builtin().by_resource("", "v1", "configmaps").unwrap())
}

pub(crate) fn slot() -> Arc<Slot> {
    Arc::new(Slot { codec: codec(), snapshot: ArcSwap::default() })
}

/// A ConfigMap at a key.
pub(crate) fn stored(key: &str, revision: i64) -> Stored {
    let name = key.rsplit('/').next().unwrap_or_default();
    codec().make(key, json!({"metadata": {"name": name, "namespace": "a"}}), revision, None)
}
