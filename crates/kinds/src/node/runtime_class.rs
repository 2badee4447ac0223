//! RuntimeClass (v1 of node.k8s.io).

use crate::cells;
use crate::check::{Node, immutable};
use crate::core::pod_spec;
use crate::definition::Definition;
use crate::metadata;
use crate::table::{AGE, NAME, TableColumn, column, words};
use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::names;
use trireme_machinery::path::Path;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses")
        .cluster()
        .conditional_update()
        .create_on_update()
        .table(TABLE)
        .check(validate)
        .check_update(validate_update)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[NAME, column("Handler", "string", words(""), |o, _| cells::text(o, "handler")), AGE];

fn validate(obj: &Value, errors: &mut ErrorList) {
    let root = Node::root(obj);
    root.required_name("handler", names::is_dns1123_label, errors);
    for (resource, amount) in root.get("overhead").entries("podFixed") {
        let at = Path::new("overhead").child("limits").key(resource);
        pod_spec::container_resource_name(resource, &at, errors);
        pod_spec::quantity_value(resource, &Node { value: amount.value, path: at }, errors);
    }
    let Some(scheduling) = root.given("scheduling") else { return };
    let selector = scheduling.get("nodeSelector");
    errors.extend(metadata::labels(selector.value, &selector.path));
    pod_spec::tolerations(&scheduling, errors);
    let mut seen = Vec::new();
    for toleration in scheduling.list("tolerations") {
        let key = ["key", "operator", "value", "effect"].map(|key| toleration.str(key));
        if seen.contains(&key) {
            errors.push(field::duplicate(&toleration.path, toleration.value));
        } else {
            seen.push(key);
        }
    }
}

fn validate_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    immutable(&Node::root(new), &Node::root(old), "handler", errors);
}
