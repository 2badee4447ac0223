//! DaemonSet (v1 of apps).

use crate::cells;
use crate::check::{Node, immutable, in_order};
use crate::core::pod_warnings;
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::table::{AGE, NAME, TableColumn, column, containers, field, images, wide};
use crate::workload;
use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::go;
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

    fn warnings(&self, set: &Value, old: Option<&Value>) -> Vec<String> {
        match old {
            Some(old) if old["spec"]["template"] == set["spec"]["template"] => Vec::new(),
            _ => pod_warnings::of_template(set, &["spec", "template"]),
        }
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
        let mut errors = ErrorList::new();
        let status = Node::of(new, "status");
        for key in [
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ] {
            status.nonnegative(key, &mut errors);
        }
        workload::collisions(new, old, &mut errors);
        errors
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

fn validate(set: &Value, errors: &mut ErrorList) {
    let spec = Node::of(set, "spec");
    spec.selector("selector", errors);
    workload::template_labels(&spec, true, None, errors);
    if let Some(selector) = spec.given("selector")
        && selector.is_empty("matchLabels")
        && selector.is_empty("matchExpressions")
    {
        errors.push(field::invalid(&selector.path, selector.value, "empty selector is invalid for daemonset"));
    }
    workload::template(&spec, errors);
    workload::always_running(&spec, &spec.get("template"), "DaemonSet", errors);
    spec.nonnegative("minReadySeconds", errors);
    strategy(&spec.get("updateStrategy"), errors);
    spec.nonnegative("revisionHistoryLimit", errors);
}

fn strategy(strategy: &Node<'_>, errors: &mut ErrorList) {
    match strategy.str("type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            let rolling = strategy.get("rollingUpdate");
            let (unavailable, surge) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
            for node in [&unavailable, &surge] {
                workload::number_or_percent(node, errors);
                workload::at_most_all(node, errors);
            }
            match (workload::amount(&unavailable) != 0, workload::amount(&surge) != 0) {
                (true, true) => rolling.invalid("maxSurge", "may not be set when maxUnavailable is non-zero", errors),
                (false, false) => errors.push(field::required(&unavailable.path, "cannot be 0 when maxSurge is 0")),
                _ => {}
            }
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
            errors.push(field::not_supported(&strategy.path, ty, ["RollingUpdate", "OnDelete"]).showing(shown));
        }
    }
}
