//! StorageVersionMigration (v1 of storagemigration.k8s.io).

use crate::definition::Definition;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("storagemigration.k8s.io", "v1", "StorageVersionMigration", "storageversionmigrations")
        .cluster()
        .status()
        .conditional_update()
}
