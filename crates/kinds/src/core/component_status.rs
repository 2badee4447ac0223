//! ComponentStatus (v1).

use crate::definition::Definition;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("", "v1", "ComponentStatus", "componentstatuses")
        .cluster()
        .short(&["cs"])
        .only(&["get", "list"])
        .not_stored()
}
