//! Role (v1 of rbac.authorization.k8s.io).

use crate::definition::Definition;
use crate::rules::NameRule;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("rbac.authorization.k8s.io", "v1", "Role", "roles").create_on_update().names(NameRule::PathSegment)
}
