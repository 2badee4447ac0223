//! FlowSchema (v1 of flowcontrol.apiserver.k8s.io).

use crate::definition::Definition;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema", "flowschemas")
        .cluster()
        .generation()
        .status()
}
