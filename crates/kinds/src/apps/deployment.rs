//! Deployment (v1 of apps).

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, containers, field, images, wide, words};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("apps", "v1", "Deployment", "deployments")
        .short(&["deploy"])
        .category("all")
        .generation()
        .scale()
        .status()
        .table(TABLE)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Ready", "string", words("Number of the pod with ready state"), |o, _| {
        format!("{}/{}", cells::int(o, "status.readyReplicas"), cells::int(o, "spec.replicas")).into()
    }),
    column("Up-to-date", "string", field("apps.v1.DeploymentStatus", "updatedReplicas"), |o, _| {
        cells::number(o, "status.updatedReplicas")
    }),
    column("Available", "string", field("apps.v1.DeploymentStatus", "availableReplicas"), |o, _| {
        cells::number(o, "status.availableReplicas")
    }),
    AGE,
    containers(|o, _| cells::names(o, "spec.template.spec.containers")),
    images(|o, _| cells::images(o, "spec.template.spec.containers")),
    wide("Selector", "string", field("apps.v1.DeploymentSpec", "selector"), |o, _| cells::selector(o, "spec.selector")),
];
