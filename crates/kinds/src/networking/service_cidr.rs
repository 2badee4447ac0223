//! ServiceCIDR (v1 of networking.k8s.io).

use crate::check::{Node, immutable};
use crate::ip;
use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, field};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("networking.k8s.io", "v1", "ServiceCIDR", "servicecidrs")
        .cluster()
        .status()
        .table(TABLE)
        .check(validate)
        .check_update(validate_update)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("CIDRs", "string", field("networking.v1.ServiceCIDRSpec", "cidrs"), |o, _| {
        cells::list(o, "spec.cidrs").iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",").into()
    }),
    AGE,
];

fn validate(obj: &Value, errors: &mut ErrorList) {
    let spec = Node::of(obj, "spec");
    let ranges = spec.list("cidrs");
    if ranges.is_empty() {
        errors.push(field::required(&spec.path.child("cidrs"), "at least one CIDR required"));
        return;
    }
    if ranges.len() > 2 {
        errors.push(field::invalid(&spec.path.child("cidrs"), spec.value, "may only hold up to 2 values"));
        return;
    }
    for range in &ranges {
        errors.extend(ip::canonical_range(&range.path, range.text()));
    }
    let families: Vec<bool> =
        ranges.iter().filter_map(|r| ip::parse_range(r.text())).map(|(ip, _)| ip.is_ipv4()).collect();
    if families.len() == 2 && families[0] == families[1] {
        let why = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        spec.invalid("cidrs", why, errors);
    }
}

fn validate_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    let (is, was) = (Node::of(new, "spec"), Node::of(old, "spec"));
    let before = was.list("cidrs");
    let grown = before.len() == 1 && is.list("cidrs").len() == 2 && is.list("cidrs")[0].text() == before[0].text();
    if grown {
        validate(new, errors);
    } else {
        immutable(&is, &was, "cidrs", errors);
    }
}
