//! Role (v1 of rbac.authorization.k8s.io).

use crate::check::Node;
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::rules::NameRule;
use serde_json::Value;
use trireme_machinery::field::ErrorList;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("rbac.authorization.k8s.io", "v1", "Role", "roles")
        .create_on_update()
        .names(NameRule::PathSegment)
        .hooks(Role)
}

#[derive(Debug)]
struct Role;

impl Hooks for Role {
    fn validate(&self, obj: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        validate(obj, &mut errors);
        errors
    }
}

fn validate(obj: &Value, errors: &mut ErrorList) {
    for rule in Node::root(obj).list("rules") {
        super::validate::rule(&rule, true, errors);
    }
}
