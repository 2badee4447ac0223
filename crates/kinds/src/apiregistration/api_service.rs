//! APIService (v1 of apiregistration.k8s.io).

use crate::definition::Definition;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("apiregistration.k8s.io", "v1", "APIService", "apiservices")
        .free_finalizers()
        .cluster()
        .category("api-extensions")
        .stored_at("apiregistration.k8s.io/apiservices")
        .status()
        .conditional_update()
}
