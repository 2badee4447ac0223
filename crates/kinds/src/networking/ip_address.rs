//! IPAddress (v1 of networking.k8s.io).

use crate::check::{Node, immutable};
use jiff::Timestamp;
use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::names;

use crate::cells;
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::rules::NameRule;
use crate::table::{AGE, NAME, TableColumn, column, field};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("networking.k8s.io", "v1", "IPAddress", "ipaddresses")
        .cluster()
        .short(&["ip"])
        .names(NameRule::IpAddress)
        .hooks(IpAddress)
}

#[derive(Debug)]
struct IpAddress;

impl Hooks for IpAddress {
    fn table(&self) -> &'static [TableColumn] {
        TABLE
    }

    fn validate(&self, obj: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        validate(obj, &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        immutable(&Node::of(new, "spec"), &Node::of(old, "spec"), "parentRef", &mut errors);
        errors
    }

    // A row has one cell more than there are columns, as in Kubernetes.
    fn cells(&self, obj: &Value, now: Timestamp) -> Vec<Value> {
        TABLE.iter().chain(&[AGE]).map(|column| column.cell(obj, now)).collect()
    }
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] =
    &[NAME, column("ParentRef", "string", field("networking.v1.IPAddressSpec", "parentRef"), |o, _| parent(o).into())];

fn parent(address: &Value) -> String {
    match cells::at(address, "spec.parentRef") {
        Value::Null => "<none>".to_owned(),
        parent => {
            let parts = ["group", "resource", "namespace", "name"].map(|key| cells::str(parent, key));
            let resource = if parts[0].is_empty() { parts[1].to_owned() } else { format!("{}.{}", parts[1], parts[0]) };
            if parts[2].is_empty() {
                format!("{resource}/{}", parts[3])
            } else {
                format!("{resource}/{}/{}", parts[2], parts[3])
            }
        }
    }
}

fn validate(obj: &Value, errors: &mut ErrorList) {
    let spec = Node::of(obj, "spec");
    let Some(parent) = spec.given("parentRef") else {
        errors.push(field::required(&spec.path.child("parentRef"), ""));
        return;
    };
    if !parent.is_empty("group") {
        parent.named("group", names::is_dns1123_subdomain, errors);
    }
    parent.required_name("resource", names::is_path_segment, errors);
    parent.required_name("name", names::is_path_segment, errors);
    if !parent.is_empty("namespace") {
        parent.named("namespace", names::is_path_segment, errors);
    }
}
