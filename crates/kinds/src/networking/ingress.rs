//! Ingress (v1 of networking.k8s.io).

use crate::check::Node;
use crate::ip;
use std::collections::BTreeSet;
use std::net::IpAddr;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::meta;
use trireme_machinery::names;
use trireme_machinery::path::Path;

use serde_json::Value;

use crate::cells;
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::table::{AGE, NAME, TableColumn, column, words};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("networking.k8s.io", "v1", "Ingress", "ingresses")
        .short(&["ing"])
        .stored_at("ingress")
        .generation()
        .status()
        .hooks(Ingress)
}

#[derive(Debug)]
struct Ingress;

impl Hooks for Ingress {
    fn table(&self) -> &'static [TableColumn] {
        TABLE
    }

    fn validate(&self, obj: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        validate(obj, &mut errors);
        let class = Node::of(obj, "spec").get("ingressClassName");
        if let (Some(annotation), Some(class)) = (meta::annotation(obj, CLASS), class.value.as_str())
            && annotation != class
        {
            let at = Path::new("annotations").child(CLASS);
            errors.push(field::invalid(&at, annotation, "must match `ingressClassName` when both are specified"));
        }
        errors
    }

    fn validate_update(&self, new: &Value, _: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        validate(new, &mut errors);
        errors
    }

    fn validate_update_status(&self, new: &Value, _: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        for point in Node::of(new, "status").get("loadBalancer").list("ingress") {
            if !point.is_empty("ip") {
                errors.extend(ip::address(&point.path.child("ip"), point.str("ip")));
            }
            if !point.is_empty("hostname") {
                point.named("hostname", names::is_dns1123_subdomain, &mut errors);
                if point.str("hostname").parse::<IpAddr>().is_ok() {
                    point.invalid("hostname", NOT_AN_ADDRESS, &mut errors);
                }
            }
        }
        errors
    }
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column(
        "Class",
        "string",
        words("The name of the IngressClass resource that should be used for additional configuration"),
        |o, _| cells::text_or(o, "spec.ingressClassName", "<none>"),
    ),
    column(
        "Hosts",
        "string",
        words("Hosts that incoming requests are matched against before the ingress rule"),
        |o, _| hosts(o).into(),
    ),
    column("Address", "string", words("Address is a list containing ingress points for the load-balancer"), |o, _| {
        address(o).into()
    }),
    column("Ports", "string", words("Ports of TLS configurations that open"), |o, _| {
        if cells::list(o, "spec.tls").is_empty() { "80".into() } else { "80, 443".into() }
    }),
    AGE,
];

fn hosts(ingress: &Value) -> String {
    let rules = cells::list(ingress, "spec.rules");
    let named: Vec<&str> = rules.iter().filter_map(|r| r["host"].as_str()).filter(|h| !h.is_empty()).take(3).collect();
    if named.is_empty() {
        "*".to_owned()
    } else if named.len() == 3 && rules.len() > 3 {
        format!("{} + {} more...", named.join(","), rules.len() - 3)
    } else {
        named.join(",")
    }
}

fn address(ingress: &Value) -> String {
    let points: BTreeSet<&str> = cells::list(ingress, "status.loadBalancer.ingress")
        .iter()
        .filter_map(|i| i["ip"].as_str().or(i["hostname"].as_str()))
        .filter(|address| !address.is_empty())
        .collect();
    points.into_iter().collect::<Vec<_>>().join(",")
}

const CLASS: &str = "kubernetes.io/ingress.class";
const NOT_AN_ADDRESS: &str = "must be a DNS name, not an IP address";

fn validate(obj: &Value, errors: &mut ErrorList) {
    let spec = Node::of(obj, "spec");
    let rules = spec.list("rules");
    match spec.given("defaultBackend") {
        Some(default) => backend(&default, errors),
        None if rules.is_empty() => {
            let why = "either `defaultBackend` or `rules` must be specified";
            errors.push(field::invalid(&spec.path, spec.get("rules").value, why));
        }
        None => {}
    }
    for rule in &rules {
        host(rule, errors);
        if let Some(http) = rule.given("http") {
            http.required("paths", errors);
            http.list("paths").iter().for_each(|p| path(p, errors));
        }
    }
    for tls in spec.list("tls") {
        for host in tls.list("hosts") {
            host.is_named(host_rule(host.text()), errors);
        }
        if !tls.is_empty("secretName") {
            tls.named("secretName", names::is_dns1123_subdomain, errors);
        }
    }
    if spec.has("ingressClassName") {
        spec.named("ingressClassName", names::is_dns1123_subdomain, errors);
    }
}

fn host_rule(host: &str) -> fn(&str) -> Vec<String> {
    if host.contains('*') { names::is_wildcard_dns1123_subdomain } else { names::is_dns1123_subdomain }
}

fn host(rule: &Node<'_>, errors: &mut ErrorList) {
    let host = rule.str("host");
    if host.is_empty() {
        return;
    }
    if host.parse::<IpAddr>().is_ok() {
        rule.invalid("host", NOT_AN_ADDRESS, errors);
    }
    rule.named("host", host_rule(host), errors);
}

fn path(path: &Node<'_>, errors: &mut ErrorList) {
    let Some(kind) = path.given("pathType") else {
        errors.push(field::required(&path.path.child("pathType"), "pathType must be specified"));
        return;
    };
    let text = path.str("path");
    match kind.text() {
        "Exact" | "Prefix" => {
            if !text.starts_with('/') {
                errors.push(field::invalid(&path.path.child("path"), text, "must be an absolute path"));
            }
            for sequence in ["//", "/./", "/../", "%2f", "%2F"].iter().filter(|s| text.contains(**s)) {
                path.invalid("path", format!("must not contain '{sequence}'"), errors);
            }
            for suffix in ["/..", "/."].iter().filter(|s| text.ends_with(**s)) {
                path.invalid("path", format!("cannot end with '{suffix}'"), errors);
            }
        }
        "ImplementationSpecific" => {
            if !text.is_empty() && !text.starts_with('/') {
                path.invalid("path", "must be an absolute path", errors);
            }
        }
        other => {
            let supported = ["Exact", "ImplementationSpecific", "Prefix"];
            errors.push(field::not_supported(&kind.path, other, supported));
        }
    }
    backend(&path.get("backend"), errors);
}

fn backend(backend: &Node<'_>, errors: &mut ErrorList) {
    let mut wrong = |why: &str| errors.push(field::invalid(&backend.path, "", why));
    match (backend.given("resource"), backend.given("service")) {
        (Some(_), Some(_)) => wrong("cannot set both resource and service backends"),
        (Some(resource), None) => reference(&resource, errors),
        (None, Some(service)) => {
            service.required_name("name", names::is_dns1123_label, errors);
            let port = service.get("port");
            match (!port.is_empty("name"), !port.is_empty("number")) {
                (true, true) => {
                    errors.push(field::invalid(&backend.path, "", "cannot set both port name & port number"))
                }
                (true, false) => port.named("name", names::is_port_name, errors),
                (false, true) => {
                    for message in names::is_port_number(port.int("number")) {
                        port.invalid("number", message, errors);
                    }
                }
                (false, false) => errors.push(field::required(&backend.path, "port name or number is required")),
            }
        }
        (None, None) => wrong("resource or service backend is required"),
    }
}

/// A reference to an object by group, kind and name.
pub(super) fn reference(reference: &Node<'_>, errors: &mut ErrorList) {
    if reference.has("apiGroup") {
        reference.named("apiGroup", names::is_dns1123_subdomain, errors);
    }
    reference.required_name("kind", names::is_path_segment, errors);
    reference.required_name("name", names::is_path_segment, errors);
}
