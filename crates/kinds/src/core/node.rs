//! Node (v1).

use std::collections::BTreeSet;

use serde_json::Value;
use trireme_machinery::meta;

use crate::cells;
use crate::definition::Definition;
use crate::hooks::Hooks;
use crate::table::{AGE, NAME, TableColumn, column, field, wide, words};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("", "v1", "Node", "nodes")
        .cluster()
        .short(&["no"])
        .stored_at("minions")
        .serves("proxy", "NodeProxyOptions", &["create", "delete", "get", "patch", "update"])
        .status()
        .created_with_status()
        .hooks(Node)
}

#[derive(Debug)]
struct Node;

impl Hooks for Node {
    fn table(&self) -> &'static [TableColumn] {
        TABLE
    }

    fn selectable_field_names(&self) -> &'static [&'static str] {
        &["spec.unschedulable"]
    }

    fn selectable_field(&self, node: &Value, name: &str) -> String {
        (cells::at(node, name) == &Value::Bool(true)).to_string()
    }
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Status", "string", words("The status of the node"), |o, _| status(o).into()),
    column("Roles", "string", words("The roles of the node"), |o, _| roles(o).into()),
    AGE,
    column("Version", "string", field("core.v1.NodeSystemInfo", "kubeletVersion"), |o, _| {
        cells::text(o, "status.nodeInfo.kubeletVersion")
    }),
    wide("Internal-IP", "string", field("core.v1.NodeStatus", "addresses"), |o, _| address(o, "InternalIP").into()),
    wide("External-IP", "string", field("core.v1.NodeStatus", "addresses"), |o, _| address(o, "ExternalIP").into()),
    wide("OS-Image", "string", field("core.v1.NodeSystemInfo", "osImage"), |o, _| {
        cells::text_or(o, "status.nodeInfo.osImage", "<unknown>")
    }),
    wide("Kernel-Version", "string", field("core.v1.NodeSystemInfo", "kernelVersion"), |o, _| kernel(o).into()),
    wide("Container-Runtime", "string", field("core.v1.NodeSystemInfo", "containerRuntimeVersion"), |o, _| {
        cells::text_or(o, "status.nodeInfo.containerRuntimeVersion", "<unknown>")
    }),
];

const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE_LABEL: &str = "kubernetes.io/role";

fn status(node: &Value) -> String {
    let ready = cells::list(node, "status.conditions").iter().rfind(|c| c["type"] == "Ready");
    let ready = match ready.map(|c| c["status"] == "True") {
        Some(true) => "Ready",
        Some(false) => "NotReady",
        None => "Unknown",
    };
    let cordoned = cells::at(node, "spec.unschedulable") == &Value::Bool(true);
    format!("{ready}{}", if cordoned { ",SchedulingDisabled" } else { "" })
}

fn roles(node: &Value) -> String {
    let mut roles = BTreeSet::new();
    for (key, value) in meta::labels(node).into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        match key.strip_prefix(ROLE_PREFIX) {
            Some(role) if !role.is_empty() => roles.insert(role),
            None if key == ROLE_LABEL && !value.is_empty() => roles.insert(value),
            _ => false,
        };
    }
    if roles.is_empty() { "<none>".to_owned() } else { roles.into_iter().collect::<Vec<_>>().join(",") }
}

fn address(node: &Value, ty: &str) -> String {
    let found = cells::list(node, "status.addresses").iter().find(|a| a["type"] == ty);
    found.map_or("<none>", |a| cells::str(a, "address")).to_owned()
}

fn kernel(node: &Value) -> String {
    let info = |key: &str| cells::str(node, &format!("status.nodeInfo.{key}"));
    let version = if info("kernelVersion").is_empty() { "<unknown>" } else { info("kernelVersion") };
    match info("architecture") {
        "" => version.to_owned(),
        architecture => format!("{version} ({architecture})"),
    }
}
