//! Deployment (v1 of apps).

use crate::cells;
use crate::check::{Node, immutable, in_order};
use crate::core::pod_warnings;
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::table::{AGE, NAME, TableColumn, column, containers, field, images, wide, words};
use crate::workload;
use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::go;

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

    fn warnings(&self, deployment: &Value, old: Option<&Value>) -> Vec<String> {
        let name = pod_warnings::of_name(deployment, old, "Pod names and hostnames");
        name.into_iter().chain(pod_warnings::of_workload(deployment, old, &["spec", "template"])).collect()
    }

    fn validate(&self, obj: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        validate(obj, &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value, ctx: &Context<'_>) -> ErrorList {
        let mut errors = self.validate(new, ctx);
        let (new, old) = (Node::of(new, "spec"), Node::of(old, "spec"));
        immutable(&new, &old, "selector", &mut errors);
        errors
    }

    fn validate_update_status(&self, new: &Value, old: &Value, _: &Context<'_>) -> ErrorList {
        let counts = ["updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas"];
        let mut errors = workload::status_counts(new, &counts, "readyReplicas");
        workload::collisions(new, old, &mut errors);
        errors
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

fn validate(deployment: &Value, errors: &mut ErrorList) {
    let spec = Node::of(deployment, "spec");
    spec.nonnegative("replicas", errors);
    workload::selector(&spec, "deployment", errors);
    workload::template_labels(&spec, false, Some("invalid label selector"), errors);
    workload::template(&spec, errors);
    workload::always_running(&spec, &spec.get("template"), "ReplicaSet", errors);
    strategy(&spec.get("strategy"), errors);
    for key in ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        spec.nonnegative(key, errors);
    }
    if spec.opt_int("progressDeadlineSeconds").is_some_and(|deadline| deadline <= spec.int("minReadySeconds")) {
        spec.invalid("progressDeadlineSeconds", "must be greater than minReadySeconds", errors);
    }
}

fn strategy(strategy: &Node<'_>, errors: &mut ErrorList) {
    match strategy.str("type") {
        "Recreate" => {
            strategy.forbidden("rollingUpdate", "may not be specified when strategy `type` is 'Recreate'", errors)
        }
        "RollingUpdate" => {
            let rolling = strategy.get("rollingUpdate");
            let (unavailable, surge) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
            workload::number_or_percent(&unavailable, errors);
            workload::number_or_percent(&surge, errors);
            if workload::amount(&unavailable) == 0 && workload::amount(&surge) == 0 {
                rolling.invalid("maxUnavailable", "may not be 0 when `maxSurge` is 0", errors);
            }
            workload::at_most_all(&unavailable, errors);
        }
        ty => {
            let rolling = strategy.given("rollingUpdate").map_or_else(
                || "null".to_owned(),
                |r| {
                    let json = |key: &str| go::json(r.get(key).value);
                    in_order([("MaxUnavailable", json("maxUnavailable")), ("MaxSurge", json("maxSurge"))])
                },
            );
            let shown = in_order([("Type", go::json(&ty.into())), ("RollingUpdate", rolling)]);
            errors.push(field::not_supported(&strategy.path, ty, ["Recreate", "RollingUpdate"]).showing(shown));
        }
    }
}
