//! Version 1 of an autoscaler knows CPU utilisation only; the rest of version 2 stands in its annotations.

use serde_json::{Map, Value, json};

use crate::cells;

const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const DEFAULT_CPU_PERCENT: i64 = 80;

/// Version 2 of a version 1.
pub(super) fn upgrade(mut obj: Value) -> Value {
    obj["apiVersion"] = "autoscaling/v2".into();
    let mut noted = take_annotations(&mut obj);
    let mut parsed = |key: &str| noted.remove(key).and_then(|text| serde_json::from_str::<Value>(text.as_str()?).ok());
    let list = |value: Option<Value>| value.and_then(|v| v.as_array().cloned());

    let percent = remove(&mut obj["spec"], "targetCPUUtilizationPercentage");
    let mut metrics: Vec<Value> =
        list(parsed(METRICS)).unwrap_or_default().iter().map(|m| metric(m, false, Direction::Up)).collect();
    metrics.extend(percent.map(cpu));
    if metrics.is_empty() {
        metrics.push(cpu(DEFAULT_CPU_PERCENT.into()));
    }
    obj["spec"]["metrics"] = metrics.into();
    if let Some(behavior) = parsed(BEHAVIOR) {
        obj["spec"]["behavior"] = cased(&behavior, lower);
    }
    if let Some(percent) = remove(&mut obj["status"], "currentCPUUtilizationPercentage") {
        obj["status"]["currentMetrics"] =
            json!([{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": percent}}}]);
    }
    if let Some(current) = list(parsed(CURRENT_METRICS)) {
        obj["status"]["currentMetrics"] = current.iter().map(|m| metric(m, true, Direction::Up)).collect();
    }
    if let Some(conditions) = list(parsed(CONDITIONS)) {
        obj["status"]["conditions"] = conditions.into();
    }
    if let Some(status) = obj["status"].as_object_mut() {
        // Always encoded by version 2, and only by it if there is none.
        status.entry("currentMetrics").or_insert(Value::Null);
        status.entry("desiredReplicas").or_insert(0.into());
    }
    obj
}

/// Version 1 of a version 2.
pub(super) fn downgrade(mut obj: Value) -> Value {
    obj["apiVersion"] = "autoscaling/v1".into();
    take_annotations(&mut obj);
    let mut notes: Vec<(&str, String)> = Vec::new();
    let list = |value: Option<Value>| value.and_then(|v| v.as_array().cloned()).unwrap_or_default();

    let metrics = list(remove(&mut obj["spec"], "metrics"));
    let is_cpu = |m: &Value| {
        m["type"] == "Resource"
            && m["resource"]["name"] == "cpu"
            && !m["resource"]["target"]["averageUtilization"].is_null()
    };
    if let Some(cpu) = metrics.iter().find(|m| is_cpu(m)) {
        obj["spec"]["targetCPUUtilizationPercentage"] = cpu["resource"]["target"]["averageUtilization"].clone();
    }
    let others: Vec<Value> = metrics.iter().filter(|m| !is_cpu(m)).map(|m| metric(m, false, Direction::Down)).collect();
    if !others.is_empty() {
        notes.push((METRICS, Value::from(others).to_string()));
    }
    if let Some(behavior) = remove(&mut obj["spec"], "behavior").filter(|b| !b.is_null()) {
        notes.push((BEHAVIOR, go_behavior(&behavior).to_string()));
    }
    let current = list(remove(&mut obj["status"], "currentMetrics"));
    for cpu in current.iter().filter(|m| m["type"] == "Resource" && m["resource"]["name"] == "cpu") {
        let percent = &cpu["resource"]["current"]["averageUtilization"];
        if !percent.is_null() {
            obj["status"]["currentCPUUtilizationPercentage"] = percent.clone();
        }
    }
    if !current.is_empty() {
        let current: Vec<Value> = current.iter().map(|m| metric(m, true, Direction::Down)).collect();
        notes.push((CURRENT_METRICS, Value::from(current).to_string()));
    }
    let conditions = list(remove(&mut obj["status"], "conditions"));
    if !conditions.is_empty() {
        notes.push((CONDITIONS, Value::from(conditions).to_string()));
    }
    if let Some(status) = obj["status"].as_object_mut() {
        status.entry("currentReplicas").or_insert(0.into());
        status.entry("desiredReplicas").or_insert(0.into());
    }
    for (key, text) in notes {
        obj["metadata"]["annotations"][key] = text.into();
    }
    obj
}

fn remove(value: &mut Value, key: &str) -> Option<Value> {
    value.as_object_mut()?.remove(key)
}

fn cpu(percent: Value) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}})
}

/// Takes the notes of a conversion out of the annotations.
fn take_annotations(obj: &mut Value) -> Map<String, Value> {
    let mut taken = Map::new();
    let Some(metadata) = obj["metadata"].as_object_mut() else { return taken };
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        for key in [CONDITIONS, METRICS, CURRENT_METRICS, BEHAVIOR] {
            if let Some(value) = annotations.remove(key) {
                taken.insert(key.to_owned(), value);
            }
        }
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    taken
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

/// One metric, or what was measured of it, in the other version.
fn metric(metric: &Value, measured: bool, direction: Direction) -> Value {
    let mut out = json!({"type": metric["type"]});
    for source in ["object", "pods", "resource", "containerResource", "external"] {
        if let Some(old) = metric.get(source).filter(|v| !v.is_null()) {
            out[source] = match direction {
                Direction::Up => source_up(source, old, measured),
                Direction::Down => source_down(source, old, measured),
            };
        }
    }
    out
}

/// What version 1 calls the amounts of a source: the value, the average value and the average utilisation.
fn amounts(source: &str, measured: bool) -> [(&'static str, &'static str); 3] {
    match (source, measured) {
        ("object", false) => [("targetValue", "value"), ("averageValue", "averageValue"), ("", "")],
        ("object", true) => [("currentValue", "value"), ("averageValue", "averageValue"), ("", "")],
        (_, false) => [
            ("targetValue", "value"),
            ("targetAverageValue", "averageValue"),
            ("targetAverageUtilization", "averageUtilization"),
        ],
        (_, true) => [
            ("currentValue", "value"),
            ("currentAverageValue", "averageValue"),
            ("currentAverageUtilization", "averageUtilization"),
        ],
    }
}

/// What both versions have and where version 2 keeps it.
fn names(source: &str) -> &'static [(&'static str, &'static [&'static str])] {
    match source {
        "object" => &[
            ("target", &["describedObject"]),
            ("metricName", &["metric", "name"]),
            ("selector", &["metric", "selector"]),
        ],
        "pods" => &[("metricName", &["metric", "name"]), ("selector", &["metric", "selector"])],
        "external" => &[("metricName", &["metric", "name"]), ("metricSelector", &["metric", "selector"])],
        "containerResource" => &[("name", &["name"]), ("container", &["container"])],
        _ => &[("name", &["name"])],
    }
}

fn source_up(source: &str, old: &Value, measured: bool) -> Value {
    let mut out = json!({});
    for (flat, nested) in names(source) {
        if let Some(value) = old.get(flat) {
            let (last, parents) = nested.split_last().unwrap_or((&"", &[]));
            let parent = parents.iter().fold(&mut out, |at, key| &mut at[*key]);
            parent[*last] = value.clone();
        }
    }
    let mut target = json!({});
    for (flat, key) in amounts(source, measured) {
        let Some(value) = old.get(flat).filter(|v| !v.is_null()) else { continue };
        let idle = source == "object" && key == "value" && !measured && !old["averageValue"].is_null();
        if !(idle && value == "0") {
            target[key] = value.clone();
        }
    }
    if measured {
        out["current"] = target;
        return out;
    }
    target["type"] = match source {
        "object" if target["averageValue"].is_null() => "Value",
        "external" if !target["value"].is_null() => "Value",
        "resource" | "containerResource" if !target["averageUtilization"].is_null() => "Utilization",
        _ => "AverageValue",
    }
    .into();
    if let Some(target) = target.as_object_mut() {
        target.retain(|_, v| !v.is_null());
    }
    out["target"] = target;
    out
}

fn source_down(source: &str, old: &Value, measured: bool) -> Value {
    let mut out = json!({});
    for (flat, nested) in names(source) {
        let value = cells::at(old, &nested.join("."));
        if !value.is_null() {
            out[*flat] = value.clone();
        }
    }
    let target = &old[if measured { "current" } else { "target" }];
    for (flat, key) in amounts(source, measured) {
        if let Some(value) = target.get(key).filter(|v| !v.is_null()) {
            out[flat] = value.clone();
        }
    }
    // These cannot be absent in version 1.
    let always: &[&str] = match (source, measured) {
        ("object", false) => &["targetValue"],
        ("object" | "external", true) => &["currentValue"],
        ("pods", false) => &["targetAverageValue"],
        ("pods" | "resource" | "containerResource", true) => &["currentAverageValue"],
        _ => &[],
    };
    for key in always {
        if out.get(key).is_none() {
            out[*key] = "0".into();
        }
    }
    out
}

/// The behavior as the type within Kubernetes is encoded: with the names of Go's fields, and none left out.
fn go_behavior(behavior: &Value) -> Value {
    let rules = |rules: &Value| {
        if rules.is_null() {
            return Value::Null;
        }
        json!({
            "StabilizationWindowSeconds": rules["stabilizationWindowSeconds"],
            "SelectPolicy": rules["selectPolicy"],
            "Policies": cased(&rules["policies"], upper),
            "Tolerance": rules["tolerance"],
        })
    };
    json!({"ScaleUp": rules(&behavior["scaleUp"]), "ScaleDown": rules(&behavior["scaleDown"])})
}

/// A value with its keys rewritten and its nulls dropped.
fn cased(value: &Value, case: fn(&str) -> String) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(_, v)| !v.is_null())
            .map(|(k, v)| (case(k), cased(v, case)))
            .collect::<Map<String, Value>>()
            .into(),
        Value::Array(list) => list.iter().map(|v| cased(v, case)).collect(),
        other => other.clone(),
    }
}

fn lower(key: &str) -> String {
    first(key, |c| c.to_ascii_lowercase())
}

fn upper(key: &str) -> String {
    first(key, |c| c.to_ascii_uppercase())
}

fn first(key: &str, case: fn(&char) -> char) -> String {
    let mut chars = key.chars();
    chars.next().map(|c| case(&c)).into_iter().chain(chars).collect()
}
