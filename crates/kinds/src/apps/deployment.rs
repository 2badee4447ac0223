//! Deployment (v1 of apps).

use crate::definition::Definition;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("apps", "v1", "Deployment", "deployments")
        .short(&["deploy"])
        .category("all")
        .generation()
        .scale()
        .status()
}
