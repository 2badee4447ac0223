//! CSIStorageCapacity (v1 of storage.k8s.io).

use crate::definition::Definition;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities").conditional_update()
}
