//! ReplicaSet (v1 of apps).

use crate::cells;
use crate::check::{Node, immutable};
use crate::core::pod_warnings;
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::table::{AGE, NAME, TableColumn, column, containers, field, images, wide};
use crate::workload;
use serde_json::Value;
use trireme_machinery::field::ErrorList;

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

    fn warnings(&self, set: &Value, old: Option<&Value>) -> Vec<String> {
        let name = pod_warnings::of_name(set, old, "Pod names and hostnames");
        name.into_iter().chain(pod_warnings::of_workload(set, old, &["spec", "template"])).collect()
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

    fn validate_update_status(&self, new: &Value, _: &Value, _: &Context<'_>) -> ErrorList {
        workload::status_counts(new, &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"], "readyReplicas")
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

fn validate(set: &Value, errors: &mut ErrorList) {
    let spec = Node::of(set, "spec");
    spec.nonnegative("replicas", errors);
    spec.nonnegative("minReadySeconds", errors);
    workload::selector(&spec, "deployment", errors);
    workload::template_labels(&spec, false, Some("invalid label selector"), errors);
    workload::template(&spec, errors);
    workload::always_running(&spec, &spec.get("template"), "ReplicaSet", errors);
}
