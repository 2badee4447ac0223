//! HorizontalPodAutoscaler (v2 of autoscaling).

use serde_json::Value;

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, field};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
        .short(&["hpa"])
        .category("all")
        .generation()
        .status()
        .table(TABLE)
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
