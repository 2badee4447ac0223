//! VolumeAttributesClass (v1 of storage.k8s.io).

use crate::cells;
use crate::check::Node;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, field};
use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::path::Path;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("storage.k8s.io", "v1", "VolumeAttributesClass", "volumeattributesclasses")
        .cluster()
        .short(&["vac"])
        .table(TABLE)
        .check(validate)
        .check_update(validate_update)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("DriverName", "string", field("storage.v1.VolumeAttributesClass", "driverName"), |o, _| {
        cells::text(o, "driverName")
    }),
    AGE,
];

fn validate(obj: &Value, errors: &mut ErrorList) {
    let root = Node::root(obj);
    super::validate::driver(&root, "driverName", errors);
    super::validate::parameters(&root, errors);
    root.required_as("parameters", "must contain at least one key/value pair", errors);
}

fn validate_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    for key in ["driverName", "parameters"] {
        if new[key] != old[key] {
            errors.push(field::forbidden(&Path::new(key), format!("updates to {key} are forbidden.")));
        }
    }
    validate(new, errors);
}
