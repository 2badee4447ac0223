//! VolumeAttributesClass (v1 of storage.k8s.io).

use crate::cells;
use crate::check::Node;
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::table::{AGE, NAME, TableColumn, column, field};
use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::path::Path;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("storage.k8s.io", "v1", "VolumeAttributesClass", "volumeattributesclasses")
        .cluster()
        .short(&["vac"])
        .hooks(VolumeAttributesClass)
}

#[derive(Debug)]
struct VolumeAttributesClass;

impl Hooks for VolumeAttributesClass {
    fn table(&self) -> &'static [TableColumn] {
        TABLE
    }

    fn validate(&self, obj: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        validate(obj, &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value, ctx: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        for key in ["driverName", "parameters"] {
            if new[key] != old[key] {
                errors.push(field::forbidden(&Path::new(key), format!("updates to {key} are forbidden.")));
            }
        }
        errors.extend(self.validate(new, ctx));
        errors
    }
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
