//! PriorityLevelConfiguration (v1 of flowcontrol.apiserver.k8s.io).

use serde_json::Value;

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, field};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("flowcontrol.apiserver.k8s.io", "v1", "PriorityLevelConfiguration", "prioritylevelconfigurations")
        .cluster()
        .generation()
        .status()
        .table(TABLE)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Type", "string", field("flowcontrol.v1.PriorityLevelConfigurationSpec", "type"), |o, _| {
        cells::text(o, "spec.type")
    }),
    column(
        "NominalConcurrencyShares",
        "string",
        field("flowcontrol.v1.LimitedPriorityLevelConfiguration", "nominalConcurrencyShares"),
        |o, _| shares(o),
    ),
    column("Queues", "string", field("flowcontrol.v1.QueuingConfiguration", "queues"), |o, _| queuing(o, "queues")),
    column("HandSize", "string", field("flowcontrol.v1.QueuingConfiguration", "handSize"), |o, _| {
        queuing(o, "handSize")
    }),
    column("QueueLengthLimit", "string", field("flowcontrol.v1.QueuingConfiguration", "queueLengthLimit"), |o, _| {
        queuing(o, "queueLengthLimit")
    }),
    AGE,
];

fn shares(level: &Value) -> Value {
    match cells::at(level, "spec.limited.nominalConcurrencyShares") {
        Value::Null => "<none>".into(),
        shares => shares.clone(),
    }
}

fn queuing(level: &Value, key: &str) -> Value {
    match &cells::at(level, "spec.limited.limitResponse.queuing")[key] {
        Value::Null => "<none>".into(),
        number => number.clone(),
    }
}
