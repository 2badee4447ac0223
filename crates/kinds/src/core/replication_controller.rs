//! ReplicationController (v1).

use crate::cells;
use crate::definition::Definition;
use crate::hooks::Hooks;
use crate::table::{AGE, NAME, TableColumn, column, containers, field, images, wide};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("", "v1", "ReplicationController", "replicationcontrollers")
        .short(&["rc"])
        .category("all")
        .stored_at("controllers")
        .generation()
        .scale()
        .status()
        .orphans()
        .hooks(ReplicationController)
}

#[derive(Debug)]
struct ReplicationController;

impl Hooks for ReplicationController {
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
    column("Desired", "integer", field("core.v1.ReplicationControllerSpec", "replicas"), |o, _| {
        cells::number(o, "spec.replicas")
    }),
    column("Current", "integer", field("core.v1.ReplicationControllerStatus", "replicas"), |o, _| {
        cells::number(o, "status.replicas")
    }),
    column("Ready", "integer", field("core.v1.ReplicationControllerStatus", "readyReplicas"), |o, _| {
        cells::number(o, "status.readyReplicas")
    }),
    AGE,
    containers(|o, _| cells::names(o, "spec.template.spec.containers")),
    images(|o, _| cells::images(o, "spec.template.spec.containers")),
    wide("Selector", "string", field("core.v1.ReplicationControllerSpec", "selector"), |o, _| {
        cells::labels(o, "spec.selector")
    }),
];
