//! Defaults of storage.

use serde_json::json;
use trireme_machinery::schema::DefaultFn;

use crate::defaults::{Object, absent, empty, ensure};

/// Type and defaults.
pub(crate) const DEFAULTS: &[(&str, DefaultFn)] =
    &[("storage.v1.StorageClass", storage_class), ("storage.v1.CSIDriver", csi_driver)];

fn storage_class(class: &mut Object) {
    absent(class, "reclaimPolicy", "Delete");
    absent(class, "volumeBindingMode", "Immediate");
}

fn csi_driver(driver: &mut Object) {
    let Some(spec) = ensure(driver, "spec") else { return };
    absent(spec, "attachRequired", true);
    absent(spec, "podInfoOnMount", false);
    absent(spec, "storageCapacity", false);
    absent(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    empty(spec, "volumeLifecycleModes", json!(["Persistent"]));
    absent(spec, "requiresRepublish", false);
    absent(spec, "seLinuxMount", false);
    absent(spec, "preventPodSchedulingIfMissing", false);
}
