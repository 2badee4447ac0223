//! Role (v1 of rbac.authorization.k8s.io).

use crate::check::Node;
use crate::definition::Definition;
use crate::rules::NameRule;
use serde_json::Value;
use trireme_machinery::field::ErrorList;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("rbac.authorization.k8s.io", "v1", "Role", "roles")
        .create_on_update()
        .names(NameRule::PathSegment)
        .check(validate)
}

fn validate(obj: &Value, errors: &mut ErrorList) {
    for rule in Node::root(obj).list("rules") {
        super::validate::rule(&rule, true, errors);
    }
}
