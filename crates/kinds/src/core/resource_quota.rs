//! ResourceQuota (v1).

use serde_json::Value;

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, words};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("", "v1", "ResourceQuota", "resourcequotas").short(&["quota"]).status().table(TABLE)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column(
        "Request",
        "string",
        words("Request represents a minimum amount of cpu/memory that a container may consume."),
        |o, _| amounts(o, false).into(),
    ),
    column(
        "Limit",
        "string",
        words(
            "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.",
        ),
        |o, _| amounts(o, true).into(),
    ),
    AGE,
];

/// Used and hard amounts of the requests, or of the limits.
fn amounts(quota: &Value, limits: bool) -> String {
    let hard = cells::at(quota, "status.hard").as_object();
    let used = cells::at(quota, "status.used");
    let amounts: Vec<String> = hard
        .into_iter()
        .flatten()
        .filter(|(resource, _)| resource.starts_with("limits.") == limits)
        .map(|(resource, hard)| format!("{resource}: {}/{}", cells::quantity(&used[resource]), cells::quantity(hard)))
        .collect();
    amounts.join(", ")
}
