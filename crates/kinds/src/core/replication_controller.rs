//! ReplicationController (v1).

use crate::definition::Definition;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("", "v1", "ReplicationController", "replicationcontrollers")
        .short(&["rc"])
        .category("all")
        .stored_at("controllers")
        .generation()
        .scale()
        .status()
        .orphans()
}
