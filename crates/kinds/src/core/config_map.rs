//! ConfigMap (v1).

use serde_json::Value;

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, field};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("", "v1", "ConfigMap", "configmaps").short(&["cm"]).table(TABLE)
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
