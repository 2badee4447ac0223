//! Defaults of autoscalers.

use serde_json::{Value, json};
use trireme_machinery::schema::DefaultFn;

use crate::defaults::{Object, absent, empty, ensure, fill_from, object};

/// Type and defaults.
pub(crate) const DEFAULTS: &[(&str, DefaultFn)] = &[
    ("autoscaling.v1.HorizontalPodAutoscaler", |o| min_replicas(o)),
    ("autoscaling.v2.HorizontalPodAutoscaler", autoscaler),
];

fn min_replicas(autoscaler: &mut Object) {
    if let Some(spec) = ensure(autoscaler, "spec") {
        absent(spec, "minReplicas", 1);
    }
}

fn autoscaler(autoscaler: &mut Object) {
    min_replicas(autoscaler);
    let Some(spec) = object(autoscaler, "spec") else { return };
    empty(
        spec,
        "metrics",
        json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]),
    );
    let Some(behavior) = object(spec, "behavior") else { return };
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    rules(
        behavior,
        "scaleUp",
        json!({"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [pods, percent]}),
    );
    rules(behavior, "scaleDown", json!({"selectPolicy": "Max", "policies": [percent]}));
}

fn rules(behavior: &mut Object, direction: &str, defaults: Value) {
    if let (Some(rules), Value::Object(defaults)) = (ensure(behavior, direction), defaults) {
        fill_from(rules, &defaults);
    }
}
