//! Endpoints (v1).

use crate::check::Node;
use crate::ip;
use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::names;

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, field};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("", "v1", "Endpoints", "endpoints")
        .short(&["ep"])
        .stored_at("services/endpoints")
        .create_on_update()
        .table(TABLE)
        .check(validate)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] =
    &[NAME, column("Endpoints", "string", field("core.v1.Endpoints", "subsets"), |o, _| endpoints(o).into()), AGE];

fn endpoints(endpoints: &Value) -> String {
    let mut all = Vec::new();
    for subset in cells::list(endpoints, "subsets") {
        let addresses = cells::list(subset, "addresses");
        let ports = cells::list(subset, "ports");
        if ports.is_empty() {
            all.extend(addresses.iter().map(|a| cells::str(a, "ip").to_owned()));
        }
        for port in ports {
            all.extend(addresses.iter().map(|a| match cells::str(a, "ip") {
                ip if ip.contains(':') => format!("[{ip}]:{}", cells::int(port, "port")),
                ip => format!("{ip}:{}", cells::int(port, "port")),
            }));
        }
    }
    cells::first(&all, 3, if cells::list(endpoints, "subsets").is_empty() { "<none>" } else { "" })
}

fn validate(endpoints: &Value, errors: &mut ErrorList) {
    for subset in Node::root(endpoints).list("subsets") {
        if subset.is_empty("addresses") && subset.is_empty("notReadyAddresses") {
            errors.push(field::required(&subset.path, "must specify `addresses` or `notReadyAddresses`"));
        }
        for address in ["addresses", "notReadyAddresses"].iter().flat_map(|list| subset.list(list)) {
            let at = address.path.child("ip");
            errors.extend(ip::address(&at, address.str("ip")));
            if !address.is_empty("hostname") {
                address.named("hostname", names::is_dns1123_label, errors);
            }
            if address.has("nodeName") {
                address.named("nodeName", names::is_dns1123_subdomain, errors);
            }
            super::service_validate::endpoint_ip(address.str("ip"), &at, errors);
        }
        let ports = subset.list("ports");
        for port in &ports {
            if ports.len() > 1 {
                port.required("name", errors);
            }
            if !port.is_empty("name") {
                port.named("name", names::is_dns1123_label, errors);
            }
            let number = port.int("port");
            errors.extend(
                names::is_port_number(number).into_iter().map(|m| field::invalid(&port.path.child("port"), &number, m)),
            );
            port.required_one_of("protocol", &["SCTP", "TCP", "UDP"], errors);
            if port.has("appProtocol") {
                port.named("appProtocol", names::is_qualified_name, errors);
            }
        }
    }
}
