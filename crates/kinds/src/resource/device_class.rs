//! DeviceClass (v1 of resource.k8s.io).

use crate::definition::Definition;
use crate::table::NAME_AND_AGE;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("resource.k8s.io", "v1", "DeviceClass", "deviceclasses").cluster().generation().table(NAME_AND_AGE)
}
