//! Defaults of networking.

use serde_json::{Value, json};
use trireme_machinery::schema::DefaultFn;

use crate::defaults::{Object, absent, empty, ensure, object};

/// Type and defaults.
pub(crate) const DEFAULTS: &[(&str, DefaultFn)] = &[
    ("networking.v1.NetworkPolicyPort", |o| absent(o, "protocol", "TCP")),
    ("networking.v1.NetworkPolicy", network_policy),
    ("networking.v1.IngressClass", ingress_class),
];

fn network_policy(policy: &mut Object) {
    let Some(spec) = ensure(policy, "spec") else { return };
    let egress = spec.get("egress").and_then(Value::as_array).is_some_and(|e| !e.is_empty());
    empty(spec, "policyTypes", if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) });
}

fn ingress_class(class: &mut Object) {
    if let Some(parameters) = object(class, "spec").and_then(|s| object(s, "parameters")) {
        absent(parameters, "scope", "Cluster");
    }
}
