//! ClusterRoleBinding (v1 of rbac.authorization.k8s.io).

use super::role_binding::subjects;
use crate::cells;
use crate::check::Node;
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::rules::NameRule;
use crate::table::{AGE, NAME, TableColumn, column, wide, words};
use serde_json::Value;
use trireme_machinery::field::ErrorList;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings")
        .cluster()
        .create_on_update()
        .names(NameRule::PathSegment)
        .hooks(ClusterRoleBinding)
}

#[derive(Debug)]
struct ClusterRoleBinding;

impl Hooks for ClusterRoleBinding {
    fn table(&self) -> &'static [TableColumn] {
        TABLE
    }

    fn validate(&self, obj: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        validate(obj, &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value, ctx: &Context<'_>) -> ErrorList {
        let mut errors = self.validate(new, ctx);
        super::validate::same_role(new, old, &mut errors);
        errors
    }
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Role", "string", words(ROLE), |o, _| {
        format!("{}/{}", cells::str(o, "roleRef.kind"), cells::str(o, "roleRef.name")).into()
    }),
    AGE,
    wide("Users", "string", words("Users in the clusterRoleBinding"), |o, _| subjects(o, "User").into()),
    wide("Groups", "string", words("Groups in the clusterRoleBinding"), |o, _| subjects(o, "Group").into()),
    wide("ServiceAccounts", "string", words("ServiceAccounts in the clusterRoleBinding"), |o, _| {
        subjects(o, "ServiceAccount").into()
    }),
];

/// What the field meant in v1beta1, which the column tells.
const ROLE: &str = "roleRef can only reference a ClusterRole in the global namespace. If the RoleRef cannot be resolved, the \
                    Authorizer must return an error.";

fn validate(obj: &Value, errors: &mut ErrorList) {
    super::validate::binding(&Node::root(obj), false, errors);
}
