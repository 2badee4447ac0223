//! StatefulSet (v1 of apps).

use crate::definition::Definition;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("apps", "v1", "StatefulSet", "statefulsets")
        .short(&["sts"])
        .category("all")
        .generation()
        .scale()
        .status()
}
