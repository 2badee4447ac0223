//! CSIStorageCapacity (v1 of storage.k8s.io).

use crate::check::{NOT_NEGATIVE, Node, immutable};
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use serde_json::Value;
use trireme_machinery::field::ErrorList;
use trireme_machinery::names;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities")
        .conditional_update()
        .hooks(CsiStorageCapacity)
}

#[derive(Debug)]
struct CsiStorageCapacity;

impl Hooks for CsiStorageCapacity {
    fn validate(&self, obj: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        validate(obj, &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        for key in ["nodeTopology", "storageClassName"] {
            immutable(&Node::root(new), &Node::root(old), key, &mut errors);
        }
        errors
    }
}

fn validate(obj: &Value, errors: &mut ErrorList) {
    let root = Node::root(obj);
    if root.has("nodeTopology") {
        root.selector("nodeTopology", errors);
    }
    root.named("storageClassName", names::is_dns1123_subdomain, errors);
    if root.get("capacity").quantity().is_some_and(|q| q.is_negative()) {
        root.invalid("capacity", NOT_NEGATIVE, errors);
    }
}
