//! Service (v1).

use std::collections::BTreeSet;
use trireme_machinery::field::ErrorList;

use serde_json::{Value, json};

use crate::cells;
use crate::defaults::{Object, absent, empty, ensure, items, object, text};
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::rules::NameRule;
use crate::table::{AGE, NAME, TableColumn, column, field, wide};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("", "v1", "Service", "services")
        .short(&["svc"])
        .category("all")
        .stored_at("services/specs")
        .serves("proxy", "ServiceProxyOptions", &["create", "delete", "get", "patch", "update"])
        .status()
        .create_on_update()
        .names(NameRule::Label)
        .hooks(Service)
}

#[derive(Debug)]
struct Service;

impl Hooks for Service {
    fn table(&self) -> &'static [TableColumn] {
        TABLE
    }

    fn selectable_field_names(&self) -> &'static [&'static str] {
        &["spec.clusterIP", "spec.type"]
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, _: &Context<'_>) {
        super::service_update::drop_what_the_type_has_not(new, old);
    }

    fn warnings(&self, service: &Value, old: Option<&Value>) -> Vec<String> {
        let _ = old;
        super::service_warnings::of(service)
    }

    fn settle_stored(&self, service: &mut Value) {
        // What an ExternalName has no use for is not shown, though it was said.
        if cells::str(service, "spec.type") == "ExternalName"
            && let Some(spec) = service["spec"].as_object_mut()
        {
            spec.remove("internalTrafficPolicy");
        }
    }

    fn validate(&self, service: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        super::service_validate::validate(service, &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value, ctx: &Context<'_>) -> ErrorList {
        let mut errors = self.validate(new, ctx);
        super::service_validate::update(new, old, &mut errors);
        errors
    }
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Type", "string", field("core.v1.ServiceSpec", "type"), |o, _| cells::text(o, "spec.type")),
    column("Cluster-IP", "string", field("core.v1.ServiceSpec", "clusterIP"), |o, _| {
        cells::list(o, "spec.clusterIPs").first().cloned().unwrap_or_else(|| "<none>".into())
    }),
    column("External-IP", "string", field("core.v1.ServiceSpec", "externalIPs"), |o, _| external_ip(o).into()),
    column("Port(s)", "string", field("core.v1.ServiceSpec", "ports"), |o, _| ports(o).into()),
    AGE,
    wide("Selector", "string", field("core.v1.ServiceSpec", "selector"), |o, _| cells::labels(o, "spec.selector")),
];

fn external_ip(service: &Value) -> String {
    let external: Vec<&str> = cells::list(service, "spec.externalIPs").iter().filter_map(Value::as_str).collect();
    match cells::str(service, "spec.type") {
        "ClusterIP" | "NodePort" if external.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => external.join(","),
        "LoadBalancer" => {
            let balancer: BTreeSet<&str> = cells::list(service, "status.loadBalancer.ingress")
                .iter()
                .filter_map(|i| i["ip"].as_str().or(i["hostname"].as_str()))
                .filter(|address| !address.is_empty())
                .collect();
            let all: Vec<&str> = balancer.into_iter().chain(external).collect();
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        "ExternalName" => cells::str(service, "spec.externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

fn ports(service: &Value) -> String {
    let ports: Vec<String> = cells::list(service, "spec.ports")
        .iter()
        .map(|port| {
            let (number, protocol) = (cells::int(port, "port"), cells::str(port, "protocol"));
            match cells::int(port, "nodePort") {
                node if node > 0 => format!("{number}:{node}/{protocol}"),
                _ => format!("{number}/{protocol}"),
            }
        })
        .collect();
    if ports.is_empty() { "<none>".to_owned() } else { ports.join(",") }
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
