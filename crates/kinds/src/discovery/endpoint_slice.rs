//! EndpointSlice (v1 of discovery.k8s.io).

use crate::check::{Node, immutable};
use crate::core::endpoint_ip;
use crate::ip;
use crate::metadata;
use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::names;
use trireme_machinery::path::Path;

use crate::cells;
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::table::{AGE, NAME, TableColumn, column, field};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices").generation().hooks(EndpointSlice)
}

#[derive(Debug)]
struct EndpointSlice;

impl Hooks for EndpointSlice {
    fn prepare_create(&self, slice: &mut Value, _: &Context<'_>) {
        drop_topology(slice);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, _: &Context<'_>) {
        if new["endpoints"] != old["endpoints"] {
            drop_topology(new);
        }
    }

    fn table(&self) -> &'static [TableColumn] {
        TABLE
    }

    fn bumps_generation(&self, new: &Value, old: &Value) -> bool {
        let rest = |slice: &Value| ["addressType", "endpoints", "ports"].map(|key| slice[key].clone());
        rest(new) != rest(old) || new["metadata"]["labels"] != old["metadata"]["labels"]
    }

    fn validate(&self, obj: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        validate(obj, &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value, ctx: &Context<'_>) -> ErrorList {
        let mut errors = self.validate(new, ctx);
        let (new, old) = (Node::root(new), Node::root(old));
        immutable(&new, &old, "addressType", &mut errors);
        errors
    }
}

/// Version 1 has a field for the topology of beta versions, which it does not take.
fn drop_topology(slice: &mut Value) {
    for endpoint in slice.get_mut("endpoints").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(endpoint) = endpoint.as_object_mut() {
            endpoint.remove("deprecatedTopology");
        }
    }
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("AddressType", "string", field("discovery.v1.EndpointSlice", "addressType"), |o, _| {
        cells::text(o, "addressType")
    }),
    column("Ports", "string", field("discovery.v1.EndpointSlice", "ports"), |o, _| ports(o).into()),
    column("Endpoints", "string", field("discovery.v1.EndpointSlice", "endpoints"), |o, _| addresses(o).into()),
    AGE,
];

fn ports(slice: &Value) -> String {
    let ports: Vec<String> = cells::list(slice, "ports")
        .iter()
        .map(|port| match (port["port"].as_i64(), port["name"].as_str()) {
            (Some(number), _) => number.to_string(),
            (None, Some(name)) => name.to_owned(),
            (None, None) => "*".to_owned(),
        })
        .collect();
    shown(&ports)
}

fn addresses(slice: &Value) -> String {
    let addresses: Vec<String> = cells::list(slice, "endpoints")
        .iter()
        .flat_map(|e| cells::list(e, "addresses"))
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    shown(&addresses)
}

fn shown(texts: &[String]) -> String {
    let text = cells::first(texts, 3, "");
    if text.is_empty() { "<unset>".to_owned() } else { text }
}

const MAX_PORTS: usize = 20_000;
const MAX_ENDPOINTS: usize = 1000;
const MAX_ADDRESSES: usize = 100;
const MAX_TOPOLOGY: usize = 16;
const MAX_HINTS: usize = 8;

fn validate(obj: &Value, errors: &mut ErrorList) {
    let root = Node::root(obj);
    root.required_one_of("addressType", &["FQDN", "IPv4", "IPv6"], errors);
    every_port(&root, errors);
    let endpoints = root.list("endpoints");
    if endpoints.len() > MAX_ENDPOINTS {
        errors.push(field::too_many(&root.path.child("endpoints"), endpoints.len(), MAX_ENDPOINTS));
        return;
    }
    for endpoint in endpoints {
        one_endpoint(&endpoint, root.str("addressType"), errors);
    }
}

fn every_port(root: &Node<'_>, errors: &mut ErrorList) {
    let ports = root.list("ports");
    if ports.len() > MAX_PORTS {
        errors.push(field::too_many(&root.path.child("ports"), ports.len(), MAX_PORTS));
        return;
    }
    let mut seen = Vec::new();
    for port in ports {
        let name = port.str("name");
        if !name.is_empty() {
            port.named("name", names::is_dns1123_label, errors);
        }
        if seen.contains(&name) {
            errors.push(field::duplicate(&port.path.child("name"), name));
        } else {
            seen.push(name);
        }
        if port.has("protocol") {
            port.one_of("protocol", &["SCTP", "TCP", "UDP"], errors);
        } else {
            errors.push(field::required(&port.path.child("protocol"), ""));
        }
        if port.has("appProtocol") {
            port.named("appProtocol", names::is_qualified_name, errors);
        }
    }
}

fn one_endpoint(endpoint: &Node<'_>, kind: &str, errors: &mut ErrorList) {
    let all = endpoint.get("addresses");
    endpoint.required("addresses", errors);
    let addresses = all.items();
    if addresses.len() > MAX_ADDRESSES {
        errors.push(field::too_many(&all.path, addresses.len(), MAX_ADDRESSES));
    }
    for address in addresses {
        let text = address.text();
        let wrong = match kind {
            "IPv4" => ip::address(&address.path, text),
            "IPv6" => ip::canonical_address(&address.path, text),
            "FQDN" => {
                errors.extend(domain_name(&address.path, text));
                continue;
            }
            _ => continue,
        };
        if !wrong.is_empty() {
            errors.extend(wrong);
            continue;
        }
        if (kind == "IPv6") != text.contains(':') {
            errors.push(field::invalid(&all.path, text, format!("must be an {kind} address")));
        }
        endpoint_ip(text, &address.path, errors);
    }
    if endpoint.has("nodeName") {
        endpoint.named("nodeName", names::is_dns1123_subdomain, errors);
    }
    let topology = endpoint.get("deprecatedTopology");
    let labels = endpoint.entries("deprecatedTopology").len();
    if labels > MAX_TOPOLOGY {
        errors.push(field::too_many(&topology.path, labels, MAX_TOPOLOGY));
    }
    errors.extend(metadata::labels(topology.value, &topology.path));
    if endpoint.has("hostname") {
        endpoint.named("hostname", names::is_dns1123_label, errors);
    }
    let hints = endpoint.get("hints");
    for (list, rule) in
        [("forZones", names::is_label_value as fn(&str) -> Vec<String>), ("forNodes", names::is_dns1123_subdomain)]
    {
        let given = hints.list(list);
        if given.len() > MAX_HINTS {
            errors.push(field::too_many(&hints.path.child(list), given.len(), MAX_HINTS));
            return;
        }
        let mut seen = Vec::new();
        for hint in given {
            let name = hint.str("name");
            if seen.contains(&name) {
                errors.push(field::duplicate(&hint.path.child("name"), name));
            }
            seen.push(name);
            hint.named("name", rule, errors);
        }
    }
}

fn domain_name(at: &Path, name: &str) -> ErrorList {
    if name.is_empty() {
        return vec![field::required(at, "")];
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let wrong = names::is_dns1123_subdomain(name);
    if !wrong.is_empty() {
        return vec![field::invalid(at, name, wrong.join(","))];
    }
    if !name.contains('.') {
        return vec![field::invalid(at, name, "should be a domain with at least two segments separated by dots")];
    }
    for label in name.split('.') {
        let wrong = names::is_dns1123_label(label);
        if !wrong.is_empty() {
            return vec![field::invalid(at, label, wrong.join(","))];
        }
    }
    ErrorList::new()
}
