//! Secret (v1).

use crate::cells;
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::table::{AGE, NAME, TableColumn, column, field};
use serde_json::Value;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("", "v1", "Secret", "secrets").hooks(Secret)
}

#[derive(Debug)]
struct Secret;

impl Hooks for Secret {
    fn table(&self) -> &'static [TableColumn] {
        TABLE
    }

    fn selectable_field_names(&self) -> &'static [&'static str] {
        &["type"]
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, _: &Context<'_>) {
        if cells::str(new, "type").is_empty() {
            new["type"] = old["type"].clone();
        }
    }
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Type", "string", field("core.v1.Secret", "type"), |o, _| cells::text(o, "type")),
    column("Data", "string", field("core.v1.Secret", "data"), |o, _| cells::count(o, "data")),
    AGE,
];
