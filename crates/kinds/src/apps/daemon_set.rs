//! DaemonSet (v1 of apps).

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, containers, field, images, wide};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("apps", "v1", "DaemonSet", "daemonsets")
        .short(&["ds"])
        .category("all")
        .generation()
        .status()
        .table(TABLE)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Desired", "integer", field("apps.v1.DaemonSetStatus", "desiredNumberScheduled"), |o, _| {
        cells::number(o, "status.desiredNumberScheduled")
    }),
    column("Current", "integer", field("apps.v1.DaemonSetStatus", "currentNumberScheduled"), |o, _| {
        cells::number(o, "status.currentNumberScheduled")
    }),
    column("Ready", "integer", field("apps.v1.DaemonSetStatus", "numberReady"), |o, _| {
        cells::number(o, "status.numberReady")
    }),
    column("Up-to-date", "integer", field("apps.v1.DaemonSetStatus", "updatedNumberScheduled"), |o, _| {
        cells::number(o, "status.updatedNumberScheduled")
    }),
    column("Available", "integer", field("apps.v1.DaemonSetStatus", "numberAvailable"), |o, _| {
        cells::number(o, "status.numberAvailable")
    }),
    column("Node Selector", "string", field("core.v1.PodSpec", "nodeSelector"), |o, _| {
        cells::labels(o, "spec.template.spec.nodeSelector")
    }),
    AGE,
    containers(|o, _| cells::names(o, "spec.template.spec.containers")),
    images(|o, _| cells::images(o, "spec.template.spec.containers")),
    wide("Selector", "string", field("apps.v1.DaemonSetSpec", "selector"), |o, _| cells::selector(o, "spec.selector")),
];
