//! PriorityClass (v1 of scheduling.k8s.io).

use crate::definition::Definition;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses")
        .cluster()
        .short(&["pc"])
        .generation()
}
