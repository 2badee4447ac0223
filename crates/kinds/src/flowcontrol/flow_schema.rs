//! FlowSchema (v1 of flowcontrol.apiserver.k8s.io).

use serde_json::Value;

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, field, words};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema", "flowschemas")
        .cluster()
        .generation()
        .status()
        .table(TABLE)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("PriorityLevel", "string", field("flowcontrol.v1.PriorityLevelConfigurationReference", "name"), |o, _| {
        cells::text(o, "spec.priorityLevelConfiguration.name")
    }),
    column("MatchingPrecedence", "string", field("flowcontrol.v1.FlowSchemaSpec", "matchingPrecedence"), |o, _| {
        cells::number(o, "spec.matchingPrecedence")
    }),
    column("DistinguisherMethod", "string", field("flowcontrol.v1.FlowSchemaSpec", "distinguisherMethod"), |o, _| {
        cells::text_or(o, "spec.distinguisherMethod.type", "<none>")
    }),
    AGE,
    column("MissingPL", "string", words("references a broken or non-existent PriorityLevelConfiguration"), |o, _| {
        dangling(o).into()
    }),
];

fn dangling(schema: &Value) -> &str {
    let condition = cells::list(schema, "status.conditions").iter().find(|c| c["type"] == "Dangling");
    condition.map_or("?", |c| cells::str(c, "status"))
}
