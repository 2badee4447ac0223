//! Taints and tolerations.

use k8s_openapi::api::core::v1::{Taint, Toleration};

pub(crate) const NO_SCHEDULE: &str = "NoSchedule";
pub(crate) const NO_EXECUTE: &str = "NoExecute";

/// The toleration covers the taint.
pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let empty = |text: &Option<String>| text.as_deref().is_none_or(str::is_empty);
    if !empty(&toleration.effect) && toleration.effect.as_deref() != Some(&taint.effect) {
        return false;
    }
    if !empty(&toleration.key) && toleration.key.as_deref() != Some(&taint.key) {
        return false;
    }
    let value = taint.value.as_deref().unwrap_or_default();
    let wanted = toleration.value.as_deref().unwrap_or_default();
    match toleration.operator.as_deref() {
        Some("Exists") => true,
        None | Some("" | "Equal") => !empty(&toleration.key) && wanted == value,
        Some(operator @ ("Lt" | "Gt")) => match (value.parse::<i64>(), wanted.parse::<i64>()) {
            (Ok(value), Ok(wanted)) => {
                if operator == "Lt" {
                    value < wanted
                } else {
                    value > wanted
                }
            }
            _ => false,
        },
        Some(_) => false,
    }
}

/// One of the tolerations covers the taint.
pub(crate) fn tolerated(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|t| tolerates(t, taint))
}
