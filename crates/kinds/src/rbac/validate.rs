//! What is wrong with roles and bindings.

use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::go;
use trireme_machinery::names;

use crate::check::{IMMUTABLE, Node, in_order};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Of a rule of a role.
pub(super) fn rule(rule: &Node<'_>, namespaced: bool, errors: &mut ErrorList) {
    rule.required("verbs", errors);
    if !rule.is_empty("nonResourceURLs") {
        if namespaced {
            rule.invalid("nonResourceURLs", "namespaced rules cannot apply to non-resource URLs", errors);
        }
        if ["apiGroups", "resources", "resourceNames"].iter().any(|key| !rule.is_empty(key)) {
            let why = "rules cannot apply to both regular resources and non-resource URLs";
            rule.invalid("nonResourceURLs", why, errors);
        }
        return;
    }
    rule.required_as("apiGroups", "resource rules must supply at least one api group", errors);
    rule.required_as("resources", "resource rules must supply at least one resource", errors);
}

/// Of a binding.
pub(super) fn binding(binding: &Node<'_>, namespaced: bool, errors: &mut ErrorList) {
    let role = binding.get("roleRef");
    role.always_one_of("apiGroup", &[GROUP], errors);
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    role.always_one_of("kind", kinds, errors);
    role.required_name("name", names::is_path_segment, errors);
    for subject in binding.list("subjects") {
        subject.required("name", errors);
        match subject.str("kind") {
            "ServiceAccount" => {
                if !subject.is_empty("name") {
                    subject.named("name", names::is_dns1123_subdomain, errors);
                }
                subject.always_one_of("apiGroup", &[""], errors);
                if !namespaced {
                    subject.required("namespace", errors);
                }
            }
            "User" | "Group" => subject.always_one_of("apiGroup", &[GROUP], errors),
            _ => subject.always_one_of("kind", &["ServiceAccount", "User", "Group"], errors),
        }
    }
}

/// A binding keeps its role.
pub(super) fn same_role(new: &Value, old: &Value, errors: &mut ErrorList) {
    if new["roleRef"] != old["roleRef"] {
        let role = Node::of(new, "roleRef");
        // Printed as the type within Kubernetes has it.
        let json = |key: &str| go::json(&role.str(key).into());
        let shown = in_order([("APIGroup", json("apiGroup")), ("Kind", json("kind")), ("Name", json("name"))]);
        errors.push(field::invalid(&role.path, role.value, IMMUTABLE).showing(shown));
    }
}
