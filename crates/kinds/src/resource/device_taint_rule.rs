//! DeviceTaintRule (v1 of resource.k8s.io).

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, field};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("resource.k8s.io", "v1", "DeviceTaintRule", "devicetaintrules")
        .cluster()
        .generation()
        .status()
        .table(TABLE)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Key", "string", field("resource.v1.DeviceTaint", "key"), |o, _| cells::text(o, "spec.taint.key")),
    column("Value", "string", field("resource.v1.DeviceTaint", "value"), |o, _| cells::text(o, "spec.taint.value")),
    column("Effect", "string", field("resource.v1.DeviceTaint", "effect"), |o, _| cells::text(o, "spec.taint.effect")),
    column("TimeAdded", "string", field("resource.v1.DeviceTaint", "timeAdded"), |o, now| {
        cells::since(cells::at(o, "spec.taint.timeAdded"), now).into()
    }),
    AGE,
];
