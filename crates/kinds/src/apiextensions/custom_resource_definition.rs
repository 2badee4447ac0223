//! CustomResourceDefinition (v1 of apiextensions.k8s.io).

use crate::definition::Definition;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")
        .free_finalizers()
        .cluster()
        .short(&["crd", "crds"])
        .category("api-extensions")
        .stored_at("apiextensions.k8s.io/customresourcedefinitions")
        .generation()
        .status()
        .conditional_update()
}
