//! Binding (v1).

use crate::definition::Definition;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("", "v1", "Binding", "bindings").only(&["create"]).not_stored()
}
