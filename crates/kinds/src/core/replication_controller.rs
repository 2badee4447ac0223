//! ReplicationController (v1).

use crate::cells;
use crate::check::Node;
use crate::core::{pod_spec, pod_warnings};
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::table::{AGE, NAME, TableColumn, column, containers, field, images, wide};
use crate::workload;
use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};

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

    fn warnings(&self, controller: &Value, old: Option<&Value>) -> Vec<String> {
        let name = pod_warnings::of_name(controller, old, "Pod names and hostnames");
        name.into_iter().chain(pod_warnings::of_workload(controller, old, &["spec", "template"])).collect()
    }

    fn validate(&self, obj: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        validate(obj, &mut errors);
        errors
    }

    fn validate_update_status(&self, new: &Value, _: &Value, _: &Context<'_>) -> ErrorList {
        workload::status_counts(new, &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"], "readyReplicas")
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

fn validate(controller: &Value, errors: &mut ErrorList) {
    let spec = Node::of(controller, "spec");
    spec.nonnegative("minReadySeconds", errors);
    spec.required("selector", errors);
    spec.nonnegative("replicas", errors);
    let Some(template) = spec.given("template") else {
        errors.push(field::required(&spec.path.child("template"), ""));
        return;
    };
    let labels = template.get("metadata").get("labels");
    let selected = spec.entries("selector").iter().all(|(key, value)| labels.get(key).value == value.value);
    if !spec.is_empty("selector") && !selected {
        errors.push(field::invalid(&labels.path, labels.value, "`selector` does not match template `labels`"));
    }
    errors.extend(pod_spec::template(&template));
    workload::always_running(&spec, &template, "ReplicationController", errors);
}
