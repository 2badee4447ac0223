//! NetworkPolicy (v1 of networking.k8s.io).

use crate::cells;
use crate::check::Node;
use crate::definition::Definition;
use crate::ip;
use crate::table::{AGE, NAME, TableColumn, column, field};
use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::names;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
        .short(&["netpol"])
        .generation()
        .table(TABLE)
        .check(validate)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Pod-Selector", "string", field("networking.v1.NetworkPolicySpec", "podSelector"), |o, _| {
        cells::selector(o, "spec.podSelector")
    }),
    AGE,
];

fn validate(obj: &Value, errors: &mut ErrorList) {
    let spec = Node::of(obj, "spec");
    spec.selector("podSelector", errors);
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.list(rules) {
            rule.list("ports").iter().for_each(|p| port(p, errors));
            rule.list(peers).iter().for_each(|p| peer(p, errors));
        }
    }
    let types = spec.list("policyTypes");
    if types.len() > 2 {
        spec.invalid("policyTypes", "may not specify more than two policyTypes", errors);
        return;
    }
    for kind in types.iter().filter(|t| !matches!(t.text(), "Ingress" | "Egress")) {
        errors.push(field::not_supported(&kind.path, kind.text(), ["Ingress", "Egress"]));
    }
}

fn port(port: &Node<'_>, errors: &mut ErrorList) {
    port.one_of("protocol", &["TCP", "UDP", "SCTP"], errors);
    let (number, end) = (port.get("port"), port.opt_int("endPort"));
    if let Some(first) = number.value.as_i64() {
        errors.extend(names::is_port_number(first).into_iter().map(|m| field::invalid(&number.path, &first, m)));
        if let Some(end) = end {
            if end < first {
                port.invalid("endPort", "must be greater than or equal to `port`", errors);
            }
            for message in names::is_port_number(end) {
                port.invalid("endPort", message, errors);
            }
        }
        return;
    }
    let named = port.has("port");
    if end.is_some() {
        let why = if named {
            "may not be specified when `port` is non-numeric"
        } else {
            "may not be specified when `port` is not specified"
        };
        port.invalid("endPort", why, errors);
    }
    if named {
        number.is_named(names::is_port_name, errors);
    }
}

fn peer(peer: &Node<'_>, errors: &mut ErrorList) {
    let given = ["podSelector", "namespaceSelector", "ipBlock"].iter().filter(|key| peer.has(key)).count();
    for key in ["podSelector", "namespaceSelector"] {
        if peer.has(key) {
            peer.selector(key, errors);
        }
    }
    if let Some(block) = peer.given("ipBlock") {
        ip_block(&block, errors);
    }
    if given == 0 {
        errors.push(field::required(&peer.path, "must specify a peer"));
    } else if given > 1 && peer.has("ipBlock") {
        errors.push(field::forbidden(&peer.path, "may not specify both ipBlock and another peer"));
    }
}

fn ip_block(block: &Node<'_>, errors: &mut ErrorList) {
    if !block.required("cidr", errors) {
        return;
    }
    let range = block.get("cidr");
    errors.extend(ip::range(&range.path, range.text()));
    let Some((outer, bits)) = ip::parse_range(range.text()) else { return };
    for except in block.list("except") {
        errors.extend(ip::range(&except.path, except.text()));
        let Some((inner, inner_bits)) = ip::parse_range(except.text()) else { continue };
        let within = inner.is_ipv4() == outer.is_ipv4() && ip::network(inner, bits) == ip::network(outer, bits);
        if !within || bits >= inner_bits {
            errors.push(field::invalid(&except.path, except.text(), "must be a strict subset of `cidr`"));
        }
    }
}
