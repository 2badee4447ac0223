//! CronJob (v1 of batch).

use crate::definition::Definition;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("batch", "v1", "CronJob", "cronjobs")
        .short(&["cj"])
        .category("all")
        .generation()
        .status()
}
