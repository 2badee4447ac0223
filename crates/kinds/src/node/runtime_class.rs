//! RuntimeClass (v1 of node.k8s.io).

use crate::definition::Definition;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses")
        .cluster()
        .conditional_update()
        .create_on_update()
}
