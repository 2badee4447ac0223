//! VolumeAttributesClass (v1 of storage.k8s.io).

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, field};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("storage.k8s.io", "v1", "VolumeAttributesClass", "volumeattributesclasses")
        .cluster()
        .short(&["vac"])
        .table(TABLE)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("DriverName", "string", field("storage.v1.VolumeAttributesClass", "driverName"), |o, _| {
        cells::text(o, "driverName")
    }),
    AGE,
];
