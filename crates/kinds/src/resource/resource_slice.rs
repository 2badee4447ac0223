//! ResourceSlice (v1 of resource.k8s.io).

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, field};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("resource.k8s.io", "v1", "ResourceSlice", "resourceslices").cluster().generation().table(TABLE)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Node", "string", field("resource.v1.ResourceSliceSpec", "nodeName"), |o, _| {
        cells::text(o, "spec.nodeName")
    }),
    column("Driver", "string", field("resource.v1.ResourceSliceSpec", "driver"), |o, _| cells::text(o, "spec.driver")),
    column("Pool", "string", field("resource.v1.ResourcePool", "name"), |o, _| cells::text(o, "spec.pool.name")),
    AGE,
];
