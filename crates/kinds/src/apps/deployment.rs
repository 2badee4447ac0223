//! Deployment (v1 of apps).

use crate::cells;
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::table::{AGE, NAME, TableColumn, column, containers, field, images, wide, words};
use serde_json::Value;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("apps", "v1", "Deployment", "deployments")
        .short(&["deploy"])
        .category("all")
        .generation()
        .scale()
        .status()
        .hooks(Deployment)
}

#[derive(Debug)]
struct Deployment;

impl Hooks for Deployment {
    fn table(&self) -> &'static [TableColumn] {
        TABLE
    }

    fn bumps_generation(&self, new: &Value, old: &Value) -> bool {
        // Annotations are copied to the ReplicaSets.
        new["spec"] != old["spec"] || new["metadata"]["annotations"] != old["metadata"]["annotations"]
    }

    fn prepare_update_status(&self, new: &mut Value, old: &Value, _: &Context<'_>) {
        match old["metadata"].get("labels") {
            Some(labels) => new["metadata"]["labels"] = labels.clone(),
            None => {
                if let Some(metadata) = new["metadata"].as_object_mut() {
                    metadata.remove("labels");
                }
            }
        }
    }
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
