//! Group `storage.k8s.io`: one file a kind.

mod csi_driver;
mod csi_node;
mod csi_storage_capacity;
mod defaults;
mod storage_class;
mod validate;
mod volume_attachment;
mod volume_attributes_class;

pub(crate) use defaults::DEFAULTS;

use crate::definition::Definition;

/// The kinds of the group.
pub(crate) fn definitions() -> Vec<Definition> {
    vec![
        csi_driver::definition(),
        csi_node::definition(),
        csi_storage_capacity::definition(),
        storage_class::definition(),
        volume_attachment::definition(),
        volume_attributes_class::definition(),
    ]
}
