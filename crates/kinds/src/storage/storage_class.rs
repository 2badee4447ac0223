//! StorageClass (v1 of storage.k8s.io).

use crate::cells;
use crate::check::{Node, immutable};
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, field};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::names;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("storage.k8s.io", "v1", "StorageClass", "storageclasses")
        .cluster()
        .short(&["sc"])
        .table(TABLE)
        .check(validate)
        .check_update(validate_update)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Provisioner", "string", field("storage.v1.StorageClass", "provisioner"), |o, _| {
        cells::text(o, "provisioner")
    }),
    column("ReclaimPolicy", "string", field("storage.v1.StorageClass", "reclaimPolicy"), |o, _| {
        cells::text_or(o, "reclaimPolicy", "Delete")
    }),
    column("VolumeBindingMode", "string", field("storage.v1.StorageClass", "volumeBindingMode"), |o, _| {
        cells::text_or(o, "volumeBindingMode", "Immediate")
    }),
    column("AllowVolumeExpansion", "string", field("storage.v1.StorageClass", "allowVolumeExpansion"), |o, _| {
        cells::truth(o, "allowVolumeExpansion", false)
    }),
    AGE,
];

fn validate(obj: &Value, errors: &mut ErrorList) {
    let root = Node::root(obj);
    super::validate::driver(&root, "provisioner", errors);
    super::validate::parameters(&root, errors);
    if !root.is_empty("reclaimPolicy") {
        root.one_of("reclaimPolicy", &["Delete", "Retain"], errors);
    }
    let mode = root.get("volumeBindingMode");
    match mode.value.as_str() {
        None => errors.push(field::required(&mode.path, "")),
        Some(_) => root.one_of("volumeBindingMode", &["Immediate", "WaitForFirstConsumer"], errors),
    }
    topologies(&root, errors);
}

/// Terms say different things; to Kubernetes a term that says nothing is one too many.
fn topologies(root: &Node<'_>, errors: &mut ErrorList) {
    let mut before = vec![BTreeMap::new()];
    for term in root.list("allowedTopologies") {
        let mut said: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let expressions = term.get("matchLabelExpressions");
        for expression in expressions.items() {
            let mut values = BTreeSet::new();
            expression.required("values", errors);
            for value in expression.list("values") {
                if !values.insert(value.text()) {
                    errors.push(field::duplicate(&value.path, value.text()));
                }
            }
            let key = expression.str("key");
            expression.named("key", names::is_qualified_name, errors);
            if said.insert(key, values).is_some() {
                errors.push(field::duplicate(&expression.path.child("key"), key));
            }
        }
        if before.contains(&said) {
            errors.push(field::duplicate(&expressions.path, ""));
        }
        before.push(said);
    }
}

fn validate_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    validate(new, errors);
    let (new, old) = (Node::root(new), Node::root(old));
    immutable(&new, &old, "parameters", errors);
    immutable(&new, &old, "provisioner", errors);
    immutable(&new, &old, "reclaimPolicy", errors);
    immutable(&new, &old, "volumeBindingMode", errors);
}
