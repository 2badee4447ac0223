//! StorageClass (v1 of storage.k8s.io).

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, field};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("storage.k8s.io", "v1", "StorageClass", "storageclasses").cluster().short(&["sc"]).table(TABLE)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Provisioner", "string", field("storage.v1.StorageClass", "provisioner"), |o, _| {
        cells::text(o, "provisioner")
    }),
    column("ReclaimPolicy", "string", field("storage.v1.StorageClass", "reclaimPolicy"), |o, _| {
        cells::text_or(o, "reclaimPolicy", "Delete")
    }),
    column("VolumeBindingMode", "string", field("storage.v1.StorageClass", "volumeBindingMode"), |o, _| {
        cells::text_or(o, "volumeBindingMode", "Immediate")
    }),
    column("AllowVolumeExpansion", "string", field("storage.v1.StorageClass", "allowVolumeExpansion"), |o, _| {
        cells::truth(o, "allowVolumeExpansion", false)
    }),
    AGE,
];
