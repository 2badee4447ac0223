//! LimitRange (v1).

use crate::definition::Definition;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("", "v1", "LimitRange", "limitranges").short(&["limits"]).create_on_update()
}
