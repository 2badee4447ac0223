//! Endpoints (v1).

use crate::definition::Definition;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("", "v1", "Endpoints", "endpoints")
        .short(&["ep"])
        .stored_at("services/endpoints")
        .create_on_update()
}
