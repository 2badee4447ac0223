//! DeviceTaintRule (v1 of resource.k8s.io).

use crate::definition::Definition;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("resource.k8s.io", "v1", "DeviceTaintRule", "devicetaintrules")
        .cluster()
        .generation()
        .status()
}
