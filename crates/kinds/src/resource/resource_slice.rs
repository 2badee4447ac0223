//! ResourceSlice (v1 of resource.k8s.io).

use crate::cells;
use crate::definition::Definition;
use crate::hooks::Hooks;
use crate::table::{AGE, NAME, TableColumn, column, field};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("resource.k8s.io", "v1", "ResourceSlice", "resourceslices")
        .cluster()
        .generation()
        .hooks(ResourceSlice)
}

#[derive(Debug)]
struct ResourceSlice;

impl Hooks for ResourceSlice {
    fn table(&self) -> &'static [TableColumn] {
        TABLE
    }

    fn selectable_field_names(&self) -> &'static [&'static str] {
        &["spec.nodeName", "spec.driver"]
    }
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
