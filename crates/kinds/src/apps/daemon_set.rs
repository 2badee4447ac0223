//! DaemonSet (v1 of apps).

use crate::cells;
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::table::{AGE, NAME, TableColumn, column, containers, field, images, wide};
use serde_json::Value;
use trireme_machinery::meta;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("apps", "v1", "DaemonSet", "daemonsets")
        .short(&["ds"])
        .category("all")
        .generation()
        .status()
        .hooks(DaemonSet)
}

#[derive(Debug)]
struct DaemonSet;

impl Hooks for DaemonSet {
    fn table(&self) -> &'static [TableColumn] {
        TABLE
    }

    fn prepare_create(&self, set: &mut Value, _: &Context<'_>) {
        let wanted = meta::annotation(set, TEMPLATE_GENERATION).and_then(|g| g.parse::<i64>().ok()).unwrap_or_default();
        meta::set_annotation(set, TEMPLATE_GENERATION, &wanted.max(1).to_string());
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, _: &Context<'_>) {
        let had = meta::annotation(old, TEMPLATE_GENERATION).and_then(|g| g.parse::<i64>().ok()).unwrap_or_default();
        let changed = new["spec"]["template"] != old["spec"]["template"];
        meta::set_annotation(new, TEMPLATE_GENERATION, &(had + i64::from(changed)).to_string());
    }
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

/// Counts the templates of a DaemonSet.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
