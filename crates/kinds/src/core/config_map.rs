//! ConfigMap (v1).

use crate::check::Node;
use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::path::Path;

use crate::cells;
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::table::{AGE, NAME, TableColumn, column, field};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("", "v1", "ConfigMap", "configmaps").short(&["cm"]).hooks(ConfigMap)
}

#[derive(Debug)]
struct ConfigMap;

impl Hooks for ConfigMap {
    fn table(&self) -> &'static [TableColumn] {
        TABLE
    }

    fn validate(&self, obj: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        validate(obj, &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value, ctx: &Context<'_>) -> ErrorList {
        let mut errors = self.validate(new, ctx);
        super::data::immutable(new, old, &["data", "binaryData"], &mut errors);
        errors
    }
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Data", "string", field("core.v1.ConfigMap", "data"), |o, _| {
        Value::from(keys(o, "data") + keys(o, "binaryData"))
    }),
    AGE,
];

fn keys(map: &Value, field: &str) -> usize {
    cells::at(map, field).as_object().map_or(0, serde_json::Map::len)
}

fn validate(map: &Value, errors: &mut ErrorList) {
    let root = Node::root(map);
    let (text, binary) = (root.entries("data"), root.entries("binaryData"));
    let mut size = super::data::keys(&text, str::len, errors);
    for (key, node) in &text {
        if binary.iter().any(|(k, _)| k == key) {
            errors.push(field::invalid(&node.path, *key, format!("duplicate of key present in binaryData[{key}]")));
        }
    }
    size += super::data::keys(&binary, super::data::decoded_length, errors);
    // Upstream's path of an empty name.
    super::data::within_limit(size, &Path::new("[]"), errors);
}
