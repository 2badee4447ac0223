//! ReplicaSet (v1 of apps).

use crate::cells;
use crate::definition::Definition;
use crate::hooks::Hooks;
use crate::table::{AGE, NAME, TableColumn, column, containers, field, images, wide};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("apps", "v1", "ReplicaSet", "replicasets")
        .short(&["rs"])
        .category("all")
        .generation()
        .scale()
        .status()
        .hooks(ReplicaSet)
}

#[derive(Debug)]
struct ReplicaSet;

impl Hooks for ReplicaSet {
    fn table(&self) -> &'static [TableColumn] {
        TABLE
    }

    fn selectable_field_names(&self) -> &'static [&'static str] {
        &["status.replicas"]
    }
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Desired", "integer", field("apps.v1.ReplicaSetSpec", "replicas"), |o, _| cells::number(o, "spec.replicas")),
    column("Current", "integer", field("apps.v1.ReplicaSetStatus", "replicas"), |o, _| {
        cells::number(o, "status.replicas")
    }),
    column("Ready", "integer", field("apps.v1.ReplicaSetStatus", "readyReplicas"), |o, _| {
        cells::number(o, "status.readyReplicas")
    }),
    AGE,
    containers(|o, _| cells::names(o, "spec.template.spec.containers")),
    images(|o, _| cells::images(o, "spec.template.spec.containers")),
    wide("Selector", "string", field("apps.v1.ReplicaSetSpec", "selector"), |o, _| cells::selector(o, "spec.selector")),
];
