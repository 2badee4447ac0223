//! ClusterRoleBinding (v1 of rbac.authorization.k8s.io).

use super::role_binding::subjects;
use crate::cells;
use crate::definition::Definition;
use crate::rules::NameRule;
use crate::table::{AGE, NAME, TableColumn, column, field, wide, words};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings")
        .cluster()
        .create_on_update()
        .names(NameRule::PathSegment)
        .table(TABLE)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Role", "string", field("rbac.v1.ClusterRoleBinding", "roleRef"), |o, _| {
        format!("{}/{}", cells::str(o, "roleRef.kind"), cells::str(o, "roleRef.name")).into()
    }),
    AGE,
    wide("Users", "string", words("Users in the clusterRoleBinding"), |o, _| subjects(o, "User").into()),
    wide("Groups", "string", words("Groups in the clusterRoleBinding"), |o, _| subjects(o, "Group").into()),
    wide("ServiceAccounts", "string", words("ServiceAccounts in the clusterRoleBinding"), |o, _| {
        subjects(o, "ServiceAccount").into()
    }),
];
