//! The taints and tolerations of typed objects, by the rules that all components share.

use k8s_openapi::api::core::v1::{Taint, Toleration};
use trireme_machinery::placement;

pub(crate) use trireme_machinery::placement::{NO_EXECUTE, NO_SCHEDULE};

/// The toleration covers the taint.
pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let toleration = placement::Toleration {
        key: toleration.key.as_deref().unwrap_or_default(),
        operator: toleration.operator.as_deref().unwrap_or_default(),
        value: toleration.value.as_deref().unwrap_or_default(),
        effect: toleration.effect.as_deref().unwrap_or_default(),
    };
    let value = taint.value.as_deref().unwrap_or_default();
    toleration.tolerates(placement::Taint { key: &taint.key, value, effect: &taint.effect })
}

/// One of the tolerations covers the taint.
pub(crate) fn tolerated(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|t| tolerates(t, taint))
}
