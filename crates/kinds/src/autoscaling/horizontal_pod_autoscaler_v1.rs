//! HorizontalPodAutoscaler (v1 of autoscaling).

use crate::definition::Definition;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("autoscaling", "v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
        .short(&["hpa"])
        .category("all")
        .stored_as("autoscaling/v2")
        .generation()
        .status()
}
