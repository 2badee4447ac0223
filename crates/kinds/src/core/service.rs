//! Service (v1).

use serde_json::{Value, json};

use crate::defaults::{Object, absent, empty, ensure, items, object, text};
use crate::definition::Definition;
use crate::rules::NameRule;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("", "v1", "Service", "services")
        .short(&["svc"])
        .category("all")
        .stored_at("services/specs")
        .serves("proxy", "ServiceProxyOptions", &["create", "delete", "get", "patch", "update"])
        .status()
        .create_on_update()
        .names(NameRule::Dns1035Label)
}

/// What a Service gets that says nothing else.
pub(crate) fn defaults(service: &mut Object) {
    let Some(spec) = ensure(service, "spec") else { return };
    empty(spec, "sessionAffinity", "None");
    match text(spec, "sessionAffinity") {
        "None" => {
            spec.remove("sessionAffinityConfig");
        }
        "ClientIP" => {
            let set = spec.get("sessionAffinityConfig").is_some_and(|c| !c["clientIP"]["timeoutSeconds"].is_null());
            if !set {
                spec.insert("sessionAffinityConfig".to_owned(), json!({"clientIP": {"timeoutSeconds": 10800}}));
            }
        }
        _ => {}
    }
    empty(spec, "type", "ClusterIP");
    for port in items(spec, "ports") {
        empty(port, "protocol", "TCP");
        if let Some(number) = port.get("port").cloned() {
            empty(port, "targetPort", number);
        }
    }
    let ty = text(spec, "type").to_owned();
    let external_ips = spec.get("externalIPs").and_then(Value::as_array).is_some_and(|ips| !ips.is_empty());
    let external = matches!(ty.as_str(), "NodePort" | "LoadBalancer") || (ty == "ClusterIP" && external_ips);
    if external {
        empty(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(ty.as_str(), "NodePort" | "LoadBalancer" | "ClusterIP") {
        absent(spec, "internalTrafficPolicy", "Cluster");
    }
    if ty == "LoadBalancer" {
        absent(spec, "allocateLoadBalancerNodePorts", true);
        if let Some(balancer) = object(service, "status").and_then(|s| object(s, "loadBalancer")) {
            for ingress in items(balancer, "ingress") {
                if !text(ingress, "ip").is_empty() {
                    absent(ingress, "ipMode", "VIP");
                }
            }
        }
    }
}
