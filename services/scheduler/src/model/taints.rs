//! The taints and tolerations of typed objects, by the rules that all components share.

use k8s_openapi::api::core::v1::{Taint, Toleration};
use trireme_machinery::placement;

/// The effect that only counts against a node.
pub use trireme_machinery::placement::PREFER_NO_SCHEDULE as SOFT;

/// Whether one of the tolerations tolerates the taint.
pub fn tolerated<'t>(taint: &Taint, tolerations: impl IntoIterator<Item = &'t Toleration>) -> bool {
    tolerations.into_iter().any(|toleration| rule(toleration).tolerates(fact(taint)))
}

/// The first taint that keeps a pod off and is not tolerated.
pub fn first_untolerated<'a>(taints: &'a [Taint], tolerations: &[Toleration]) -> Option<&'a Taint> {
    taints.iter().filter(|taint| fact(taint).is_hard()).find(|taint| !tolerated(taint, tolerations))
}

fn fact(taint: &Taint) -> placement::Taint<'_> {
    placement::Taint { key: &taint.key, value: taint.value.as_deref().unwrap_or_default(), effect: &taint.effect }
}

fn rule(toleration: &Toleration) -> placement::Toleration<'_> {
    placement::Toleration {
        key: toleration.key.as_deref().unwrap_or_default(),
        operator: toleration.operator.as_deref().unwrap_or_default(),
        value: toleration.value.as_deref().unwrap_or_default(),
        effect: toleration.effect.as_deref().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_hard_taints_keep_off() {
        let taint: Taint = serde_json::from_value(json!({"key": "k", "value": "5", "effect": "NoSchedule"})).unwrap();
        let equal: Toleration = serde_json::from_value(json!({"key": "k", "value": "5"})).unwrap();
        let soft = Taint { effect: SOFT.to_owned(), ..taint.clone() };
        assert!(first_untolerated(&[soft], &[]).is_none());
        assert!(first_untolerated(std::slice::from_ref(&taint), &[]).is_some());
        assert!(first_untolerated(&[taint], &[equal]).is_none());
    }
}
