//! Group `rbac.authorization.k8s.io`: one file a kind.

mod cluster_role;
mod cluster_role_binding;
mod defaults;
mod role;
mod role_binding;
mod validate;

pub(crate) use defaults::DEFAULTS;

use crate::definition::Definition;

/// The kinds of the group.
pub(crate) fn definitions() -> Vec<Definition> {
    vec![cluster_role_binding::definition(), cluster_role::definition(), role_binding::definition(), role::definition()]
}
