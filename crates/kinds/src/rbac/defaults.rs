//! Defaults of roles.

use trireme_machinery::schema::DefaultFn;

use crate::defaults::{Object, empty, ensure, text};

/// Type and defaults.
pub(crate) const DEFAULTS: &[(&str, DefaultFn)] =
    &[("rbac.v1.ClusterRoleBinding", role_ref), ("rbac.v1.RoleBinding", role_ref), ("rbac.v1.Subject", subject)];

const GROUP: &str = "rbac.authorization.k8s.io";

fn role_ref(binding: &mut Object) {
    if let Some(reference) = ensure(binding, "roleRef") {
        empty(reference, "apiGroup", GROUP);
    }
}

fn subject(subject: &mut Object) {
    if matches!(text(subject, "kind"), "User" | "Group") {
        empty(subject, "apiGroup", GROUP);
    }
}
