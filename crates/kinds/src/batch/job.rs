//! Job (v1 of batch).

use crate::definition::Definition;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("batch", "v1", "Job", "jobs")
        .category("all")
        .generation()
        .status()
        .orphans()
}
