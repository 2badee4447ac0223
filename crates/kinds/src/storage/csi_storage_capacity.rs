//! CSIStorageCapacity (v1 of storage.k8s.io).

use crate::check::{NOT_NEGATIVE, Node, immutable};
use crate::definition::Definition;
use serde_json::Value;
use trireme_machinery::field::ErrorList;
use trireme_machinery::names;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities")
        .conditional_update()
        .check(validate)
        .check_update(validate_update)
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

fn validate_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    for key in ["nodeTopology", "storageClassName"] {
        immutable(&Node::root(new), &Node::root(old), key, errors);
    }
}
