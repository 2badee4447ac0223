//! EndpointSlice (v1 of discovery.k8s.io).

use serde_json::Value;

use crate::cells;
use crate::definition::Definition;
use crate::hooks::Hooks;
use crate::table::{AGE, NAME, TableColumn, column, field};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices").generation().hooks(EndpointSlice)
}

#[derive(Debug)]
struct EndpointSlice;

impl Hooks for EndpointSlice {
    fn table(&self) -> &'static [TableColumn] {
        TABLE
    }

    fn bumps_generation(&self, new: &Value, old: &Value) -> bool {
        let rest = |slice: &Value| ["addressType", "endpoints", "ports"].map(|key| slice[key].clone());
        rest(new) != rest(old) || new["metadata"]["labels"] != old["metadata"]["labels"]
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
