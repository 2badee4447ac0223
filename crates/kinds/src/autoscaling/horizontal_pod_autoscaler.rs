//! HorizontalPodAutoscaler (v2 of autoscaling).

use crate::definition::Definition;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
        .short(&["hpa"])
        .category("all")
        .generation()
        .status()
}
