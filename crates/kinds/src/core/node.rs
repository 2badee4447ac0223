//! Node (v1).

use crate::definition::Definition;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("", "v1", "Node", "nodes")
        .cluster()
        .short(&["no"])
        .stored_at("minions")
        .serves("proxy", "NodeProxyOptions", &["create", "delete", "get", "patch", "update"])
        .status()
        .created_with_status()
}
