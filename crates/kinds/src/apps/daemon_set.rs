//! DaemonSet (v1 of apps).

use crate::definition::Definition;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("apps", "v1", "DaemonSet", "daemonsets")
        .short(&["ds"])
        .category("all")
        .generation()
        .status()
}
