//! PodDisruptionBudget (v1 of policy).

use crate::definition::Definition;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
        .short(&["pdb"])
        .generation()
        .status()
        .conditional_update()
}
