//! CSINode (v1 of storage.k8s.io).

use crate::cells;
use crate::check::{IMMUTABLE, Node};
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, words};
use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::names;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("storage.k8s.io", "v1", "CSINode", "csinodes")
        .cluster()
        .status()
        .conditional_update()
        .table(TABLE)
        .check(validate)
        .check_update(validate_update)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column(
        "Drivers",
        "integer",
        words("Drivers indicates the number of CSI drivers registered on the node"),
        |o, _| cells::count(o, "spec.drivers"),
    ),
    AGE,
];

const MAX_NODE_ID: usize = 256;

fn validate(obj: &Value, errors: &mut ErrorList) {
    let mut seen = Vec::new();
    for driver in Node::of(obj, "spec").list("drivers") {
        super::validate::csi_driver(&driver.get("name"), errors);
        driver.required("nodeID", errors);
        if driver.str("nodeID").len() > MAX_NODE_ID {
            driver.invalid("nodeID", format!("must be {MAX_NODE_ID} characters or less"), errors);
        }
        driver.get("allocatable").nonnegative("count", errors);
        let name = driver.str("name");
        if seen.contains(&name) {
            errors.push(field::duplicate(&driver.path.child("name"), name));
        }
        seen.push(name);
        let mut keys = Vec::new();
        for key in driver.list("topologyKeys") {
            let text = key.text();
            if text.is_empty() {
                errors.push(field::required(&driver.path, ""));
            }
            if keys.contains(&text) {
                errors.push(field::duplicate(&driver.path, text));
            }
            keys.push(text);
            errors.extend(names::is_qualified_name(text).into_iter().map(|m| field::invalid(&driver.path, text, m)));
        }
    }
}

fn validate_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    validate(new, errors);
    let but_count = |driver: &Node<'_>| {
        let mut copy = driver.value.clone();
        if let Some(map) = copy.as_object_mut() {
            map.remove("allocatable");
        }
        copy
    };
    let (is, was) = (Node::of(new, "spec"), Node::of(old, "spec"));
    for driver in is.list("drivers") {
        let before = was.list("drivers").into_iter().find(|d| d.str("name") == driver.str("name"));
        if before.is_some_and(|before| but_count(&before) != but_count(&driver)) {
            errors.push(field::invalid(&is.path.child("drivers"), driver.value, IMMUTABLE));
        }
    }
}
