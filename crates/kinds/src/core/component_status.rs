//! ComponentStatus (v1).

use serde_json::Value;

use crate::cells;
use crate::definition::Definition;
use crate::table::{NAME, TableColumn, column, words};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("", "v1", "ComponentStatus", "componentstatuses")
        .cluster()
        .short(&["cs"])
        .only(&["get", "list"])
        .not_stored()
        .table(TABLE)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Status", "string", words("Status of the component conditions"), |o, _| health(o, "status")),
    column("Message", "string", words("Message of the component conditions"), |o, _| health(o, "message")),
    column("Error", "string", words("Error of the component conditions"), |o, _| health(o, "error")),
];

fn health(component: &Value, key: &str) -> Value {
    let condition = cells::list(component, "conditions").iter().find(|c| c["type"] == "Healthy");
    match (key, condition) {
        ("status", None) => "Unknown".into(),
        ("status", Some(c)) if c["status"] == "True" => "Healthy".into(),
        ("status", Some(_)) => "Unhealthy".into(),
        (_, None) => "".into(),
        (key, Some(c)) => cells::text(c, key),
    }
}
