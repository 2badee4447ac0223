//! HorizontalPodAutoscaler (v2 of autoscaling).

use crate::check::{NOT_NEGATIVE, Node};
use crate::core::pod_spec;
use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::names;

use crate::cells;
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::table::{AGE, NAME, TableColumn, column, field};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
        .short(&["hpa"])
        .category("all")
        .generation()
        .status()
        .hooks(HorizontalPodAutoscaler)
}

#[derive(Debug)]
pub(super) struct HorizontalPodAutoscaler;

impl Hooks for HorizontalPodAutoscaler {
    fn table(&self) -> &'static [TableColumn] {
        TABLE
    }

    fn validate(&self, obj: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        validate(obj, Target::New, &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        let target = |obj: &Value| {
            let target = cells::at(obj, "spec.scaleTargetRef");
            (target["apiVersion"].clone(), target["kind"].clone())
        };
        let kept = target(new) == target(old);
        validate(new, if kept { Target::Kept } else { Target::New }, &mut errors);
        errors
    }

    fn validate_update_status(&self, new: &Value, _: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        let status = Node::of(new, "status");
        status.nonnegative("currentReplicas", &mut errors);
        status.nonnegative("desiredReplicas", &mut errors);
        errors
    }
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Reference", "string", field("autoscaling.v2.HorizontalPodAutoscalerSpec", "scaleTargetRef"), |o, _| {
        format!("{}/{}", cells::str(o, "spec.scaleTargetRef.kind"), cells::str(o, "spec.scaleTargetRef.name")).into()
    }),
    column("Targets", "string", field("autoscaling.v2.HorizontalPodAutoscalerSpec", "metrics"), |o, _| {
        targets(o).into()
    }),
    column("MinPods", "string", field("autoscaling.v2.HorizontalPodAutoscalerSpec", "minReplicas"), |o, _| min_pods(o)),
    column("MaxPods", "string", field("autoscaling.v2.HorizontalPodAutoscalerSpec", "maxReplicas"), |o, _| {
        cells::number(o, "spec.maxReplicas")
    }),
    column("Replicas", "string", field("autoscaling.v2.HorizontalPodAutoscalerStatus", "currentReplicas"), |o, _| {
        cells::number(o, "status.currentReplicas")
    }),
    AGE,
];

/// The least number of Pods.
pub(crate) fn min_pods(autoscaler: &Value) -> Value {
    cells::at(autoscaler, "spec.minReplicas").as_i64().map_or_else(|| "<unset>".to_owned(), |n| n.to_string()).into()
}

/// What is measured against what is wanted, metric by metric.
pub(crate) fn targets(autoscaler: &Value) -> String {
    let statuses = cells::list(autoscaler, "status.currentMetrics");
    let all: Vec<String> = cells::list(autoscaler, "spec.metrics")
        .iter()
        .enumerate()
        .map(|(i, spec)| target(spec, statuses.get(i).unwrap_or(&Value::Null)))
        .collect();
    match all.len() {
        0 => "<none>".to_owned(),
        n if n > 2 => format!("{} + {} more...", all[..2].join(", "), n - 2),
        _ => all.join(", "),
    }
}

fn target(spec: &Value, status: &Value) -> String {
    let (source, named) = match cells::str(spec, "type") {
        "External" => ("external", false),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        _ => return "<unknown type>".to_owned(),
    };
    let (spec, current) = (&spec[source], &status[source]["current"]);
    let amount = |value: &Value| if value.is_null() { "<unknown>".to_owned() } else { cells::quantity(value) };
    let percent =
        |value: &Value, otherwise: &str| value.as_i64().map_or_else(|| otherwise.to_owned(), |n| format!("{n}%"));
    let wanted = &spec["target"];
    let by_average = !wanted["averageValue"].is_null();
    if named {
        let name = cells::str(spec, "name");
        if by_average {
            return format!("{name}: {}/{}", amount(&current["averageValue"]), amount(&wanted["averageValue"]));
        }
        let target = percent(&wanted["averageUtilization"], "<auto>");
        return format!("{name}: {}/{target}", percent(&current["averageUtilization"], "<unknown>"));
    }
    match (by_average, source) {
        (true, "pods") => format!("{}/{}", amount(&current["averageValue"]), amount(&wanted["averageValue"])),
        (true, _) => format!("{}/{} (avg)", amount(&current["averageValue"]), amount(&wanted["averageValue"])),
        (false, _) => format!("{}/{}", amount(&current["value"]), amount(&wanted["value"])),
    }
}

/// Whether the target of an autoscaler is held to the rules.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    /// It is.
    New,
    /// It was there before.
    Kept,
}

fn validate(obj: &Value, target: Target, errors: &mut ErrorList) {
    let spec = Node::of(obj, "spec");
    spec.nonnegative("minReplicas", errors);
    let max = spec.int("maxReplicas");
    if max == 0 {
        errors.push(field::required(&spec.path.child("maxReplicas"), ""));
    } else if max < 0 {
        errors.push(field::invalid(&spec.path.child("maxReplicas"), &max, "must be greater than or equal to 1"));
    }
    if spec.opt_int("minReplicas").is_some_and(|min| max < min) {
        let why = "must be greater than or equal to `minReplicas`";
        errors.push(field::invalid(&spec.path.child("maxReplicas"), &max, why));
    }
    let scaled = spec.get("scaleTargetRef");
    reference(&scaled, target == Target::New, scaled.str("kind") == "ReplicationController", errors);
    let metrics = spec.list("metrics");
    metrics.iter().for_each(|m| metric(m, target == Target::New, errors));
    let from_zero = metrics.iter().any(|m| matches!(m.str("type"), "Object" | "External"));
    if spec.opt_int("minReplicas") == Some(0) && !from_zero {
        let why = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(field::forbidden(&spec.path.child("metrics"), why));
    }
    for direction in ["scaleUp", "scaleDown"] {
        if let Some(rules) = spec.get("behavior").given(direction) {
            scaling_rules(&rules, errors);
        }
    }
}

fn reference(reference: &Node<'_>, versioned: bool, any_group: bool, errors: &mut ErrorList) {
    reference.required_name("kind", names::is_path_segment, errors);
    reference.required_name("name", names::is_path_segment, errors);
    let version = reference.str("apiVersion");
    if !versioned {
        return;
    }
    if version.matches('/').count() > 1 {
        let why = format!("unexpected GroupVersion string: {version}");
        errors.push(field::invalid(&reference.path.child("apiVersion"), version, why));
    } else if !any_group && version.split_once('/').is_none_or(|(group, _)| group.is_empty()) {
        let why = "apiVersion must specify API group";
        errors.push(field::invalid(&reference.path.child("apiVersion"), version, why));
    }
}

const SOURCES: &[(&str, &str)] = &[
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];

fn metric(metric: &Node<'_>, versioned: bool, errors: &mut ErrorList) {
    metric.required_as("type", "must specify a metric source type", errors);
    metric.always_one_of("type", &["ContainerResource", "External", "Object", "Pods", "Resource"], errors);
    let present: Vec<&str> = SOURCES.iter().map(|(_, key)| *key).filter(|key| metric.has(key)).collect();
    if let Some(key) = present.first() {
        source(key, &metric.get(key), versioned, errors);
    }
    let expected = SOURCES.iter().find(|(ty, _)| *ty == metric.str("type")).map(|(_, key)| *key);
    if let Some(key) = expected.filter(|key| !metric.has(key)) {
        let why = "must populate information for the given metric source";
        errors.push(field::required(&metric.path.child(key), why));
    }
    if present.len() != 1 {
        for key in present.into_iter().filter(|key| Some(*key) != expected) {
            errors.push(field::forbidden(&metric.path.child(key), "must populate the given metric source only"));
        }
    }
}

fn source(key: &str, source: &Node<'_>, versioned: bool, errors: &mut ErrorList) {
    let target = source.get("target");
    let identified = |errors: &mut ErrorList| {
        let metric = source.get("metric");
        if metric.required_as("name", "must specify a metric name", errors) {
            metric.named("name", names::is_path_segment, errors);
        }
        target_of(&target, errors);
    };
    let need = |field: &str, why: &str, errors: &mut ErrorList| {
        errors.push(field::required(&target.path.child(field), why));
    };
    let (value, average) = (target.has("value"), target.has("averageValue"));
    match key {
        "object" => {
            reference(&source.get("describedObject"), versioned, true, errors);
            identified(errors);
            if !value && !average {
                need("averageValue", "must set either a target value or averageValue", errors);
            }
        }
        "external" => {
            identified(errors);
            if !value && !average {
                need("averageValue", "must set either a target value for metric or a per-pod target", errors);
            }
            if value && average {
                let why = "may not set both a target value for metric and a per-pod target";
                target.forbidden("value", why, errors);
            }
        }
        "pods" => {
            identified(errors);
            if !average {
                need("averageValue", "must specify a positive target averageValue", errors);
            }
        }
        _ => {
            let named = source.required_as("name", "must specify a resource name", errors);
            if key == "containerResource" {
                if named {
                    let at = source.path.child("name");
                    pod_spec::container_resource_name(source.str("name"), &at, errors);
                }
                if source.required_as("container", "must specify a container", errors) {
                    source.named("container", names::is_dns1123_label, errors);
                }
            }
            target_of(&target, errors);
            let utilization = target.has("averageUtilization");
            if !utilization && !average {
                let why = "must set either a target raw value or a target utilization";
                need("averageUtilization", why, errors);
            }
            if utilization && average {
                let why = "may not set both a target raw value and a target utilization";
                target.forbidden("averageValue", why, errors);
            }
        }
    }
}

fn target_of(target: &Node<'_>, errors: &mut ErrorList) {
    target.required_as("type", "must specify a metric target type", errors);
    let ty = target.str("type");
    if !matches!(ty, "Utilization" | "Value" | "AverageValue") {
        let why = "must be either Utilization, Value, or AverageValue";
        errors.push(field::invalid(&target.path.child("type"), ty, why));
    }
    for key in ["value", "averageValue"] {
        if target.get(key).quantity().is_some_and(|q| q.is_zero() || q.is_negative()) {
            target.invalid(key, "must be positive", errors);
        }
    }
    if target.opt_int("averageUtilization").is_some_and(|n| n < 1) {
        target.invalid("averageUtilization", "must be greater than 0", errors);
    }
}

const MAX_WINDOW: i64 = 3600;
const MAX_PERIOD: i64 = 1800;

fn scaling_rules(rules: &Node<'_>, errors: &mut ErrorList) {
    let window = rules.int("stabilizationWindowSeconds");
    if window < 0 {
        rules.invalid("stabilizationWindowSeconds", "must be greater than or equal to zero", errors);
    }
    if window > MAX_WINDOW {
        let why = format!("must be less than or equal to {MAX_WINDOW}");
        rules.invalid("stabilizationWindowSeconds", why, errors);
    }
    rules.one_of("selectPolicy", &["Disabled", "Max", "Min"], errors);
    rules.required_as("policies", "must specify at least one Policy", errors);
    for policy in rules.list("policies") {
        policy.always_one_of("type", &["Percent", "Pods"], errors);
        for key in ["value", "periodSeconds"] {
            if policy.int(key) <= 0 {
                errors.push(field::invalid(&policy.path.child(key), &policy.int(key), "must be greater than zero"));
            }
        }
        if policy.int("periodSeconds") > MAX_PERIOD {
            policy.invalid("periodSeconds", format!("must be less than or equal to {MAX_PERIOD}"), errors);
        }
    }
    if rules.get("tolerance").quantity().is_some_and(|q| q.is_negative()) {
        rules.invalid("tolerance", NOT_NEGATIVE, errors);
    }
}
