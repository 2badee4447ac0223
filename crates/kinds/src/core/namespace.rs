//! Namespace (v1).

use crate::definition::Definition;
use crate::rules::NameRule;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("", "v1", "Namespace", "namespaces")
        .cluster()
        .short(&["ns"])
        .only(&["create", "delete", "get", "list", "patch", "update", "watch"])
        .serves("finalize", "Namespace", &["update"])
        .status()
        .names(NameRule::Label)
}
