//! Lease (v1 of coordination.k8s.io).

use crate::definition::Definition;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("coordination.k8s.io", "v1", "Lease", "leases")
        .conditional_update()
        .create_on_update()
}
