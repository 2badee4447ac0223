//! Node (v1).

use crate::check::{Node, in_order};
use crate::core::pod_spec;
use crate::ip;
use std::collections::BTreeSet;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::go;
use trireme_machinery::names;
use trireme_machinery::path::Path;

use serde_json::{Map, Value, json};
use trireme_machinery::meta;

use crate::cells;
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
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
        .hooks(NodeRules)
}

#[derive(Debug)]
struct NodeRules;

impl Hooks for NodeRules {
    fn default(&self, node: &mut Value) {
        // The one range and the list of them say the same; if not, the one is right.
        let Some(spec) = node["spec"].as_object_mut() else { return };
        let first = |spec: &Map<String, Value>| spec.get("podCIDRs").and_then(|l| l.get(0)).cloned();
        match spec.get("podCIDR").filter(|one| *one != "").cloned() {
            Some(one) if first(spec).as_ref() != Some(&one) => _ = spec.insert("podCIDRs".to_owned(), json!([one])),
            Some(_) => {}
            None => {
                if let Some(one) = first(spec) {
                    spec.insert("podCIDR".to_owned(), one);
                }
            }
        }
    }

    fn table(&self) -> &'static [TableColumn] {
        TABLE
    }

    fn selectable_field_names(&self) -> &'static [&'static str] {
        &["spec.unschedulable"]
    }

    fn selectable_field(&self, node: &Value, name: &str) -> String {
        (cells::at(node, name) == &Value::Bool(true)).to_string()
    }

    fn warnings(&self, node: &Value, old: Option<&Value>) -> Vec<String> {
        let _ = old;
        let spec = Node::of(node, "spec");
        let mut warnings = Vec::new();
        if spec.has("configSource") {
            warnings.push("spec.configSource: the feature is removed".to_owned());
        }
        if !spec.is_empty("externalID") {
            warnings.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
        }
        warnings
    }

    fn validate(&self, node: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        validate(node, &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value, ctx: &Context<'_>) -> ErrorList {
        let mut errors = self.validate(new, ctx);
        let (is, was) = (Node::of(new, "spec"), Node::of(old, "spec"));
        let changed = |key: &str| !was.is_empty(key) && was.get(key).value != is.get(key).value;
        if changed("podCIDRs") {
            errors.push(field::forbidden(
                &is.path.child("podCIDRs"),
                "node updates may not change podCIDR except from \"\" to valid",
            ));
        }
        if changed("providerID") {
            errors.push(field::forbidden(
                &is.path.child("providerID"),
                "node updates may not change providerID except from \"\" to valid",
            ));
        }
        errors
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

fn validate(node: &Value, errors: &mut ErrorList) {
    let spec = Node::of(node, "spec");
    taints(&spec, errors);
    let status = Node::of(node, "status");
    for key in ["capacity", "allocatable"] {
        for (resource, amount) in status.entries(key) {
            pod_spec::resource_name(resource, &amount.path, errors);
            pod_spec::quantity_value(resource, &amount, errors);
        }
    }
    let ranges = spec.list("podCIDRs");
    for range in &ranges {
        errors.extend(ip::range(&range.path, range.text()));
    }
    if ranges.len() > 1 {
        let families: Vec<bool> = ranges.iter().map(|r| r.text().contains(':')).collect();
        if ranges.len() > 2 || families[0] == families[1] {
            let why = "may specify no more than one CIDR for each IP family";
            errors.push(field::invalid(&spec.path.child("podCIDRs"), spec.get("podCIDRs").value, why));
        }
    }
}

/// Of the taints of a node.
fn taints(spec: &Node<'_>, errors: &mut ErrorList) {
    let mut seen = Vec::new();
    // Kubernetes looks for them in the metadata, by its messages.
    let taints = Node { value: spec.get("taints").value, path: Path::new("metadata").child("taints") };
    for taint in taints.items() {
        taint.named("key", names::is_qualified_name, errors);
        let wrong = names::is_label_value(taint.str("value"));
        if !wrong.is_empty() {
            errors.push(field::invalid(&taint.path.child("value"), taint.str("value"), wrong.join(";")));
        }
        taint.required_one_of("effect", &["NoSchedule", "PreferNoSchedule", "NoExecute"], errors);
        let identity = (taint.str("key"), taint.str("effect"));
        if seen.contains(&identity) {
            let json = |key: &str| go::json(&taint.str(key).into());
            let shown = in_order([
                ("Key", json("key")),
                ("Value", json("value")),
                ("Effect", json("effect")),
                ("TimeAdded", go::json(taint.get("timeAdded").value)),
            ]);
            let mut error = field::duplicate(&taint.path, taint.value).showing(shown);
            error.detail = "taints must be unique by key and effect pair".to_owned();
            errors.push(error);
        }
        seen.push(identity);
    }
}
