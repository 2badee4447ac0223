//! StorageVersionMigration (v1 of storagemigration.k8s.io).

use serde_json::Value;

use crate::cells;
use crate::definition::Definition;
use crate::table::{TableColumn, column, field, words};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("storagemigration.k8s.io", "v1", "StorageVersionMigration", "storageversionmigrations")
        .cluster()
        .status()
        .conditional_update()
        .table(TABLE)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    column("Name", "string", field("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "name"), |o, _| {
        cells::text(o, "metadata.name")
    }),
    column("Resource", "string", words("GroupResource to migrate"), |o, _| resource(o).into()),
    column("Status", "string", words("Status of the migration"), |o, _| status(o).into()),
];

fn resource(migration: &Value) -> String {
    let (group, resource) =
        (cells::str(migration, "spec.resource.group"), cells::str(migration, "spec.resource.resource"));
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

fn status(migration: &Value) -> &'static str {
    let states = ["Succeeded", "Failed", "Running"];
    states.into_iter().find(|s| cells::has_condition(migration, s)).unwrap_or("Pending")
}
