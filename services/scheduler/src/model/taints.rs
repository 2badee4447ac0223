//! Taints and what tolerates them.

use k8s_openapi::api::core::v1::{Taint, Toleration};

/// Effects that keep a pod from being placed.
pub const HARD: [&str; 2] = ["NoSchedule", "NoExecute"];
/// The effect that only counts against a node.
pub const SOFT: &str = "PreferNoSchedule";

/// Whether one of the tolerations tolerates the taint.
pub fn tolerated<'t>(taint: &Taint, tolerations: impl IntoIterator<Item = &'t Toleration>) -> bool {
    tolerations.into_iter().any(|toleration| tolerates(toleration, taint))
}

/// The first taint that keeps a pod off and is not tolerated.
pub fn first_untolerated<'a>(taints: &'a [Taint], tolerations: &[Toleration]) -> Option<&'a Taint> {
    taints.iter().filter(|taint| HARD.contains(&taint.effect.as_str())).find(|taint| !tolerated(taint, tolerations))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let (effect, key) = (text(&toleration.effect), text(&toleration.key));
    if (!effect.is_empty() && effect != taint.effect) || (!key.is_empty() && key != taint.key) {
        return false;
    }
    let (wanted, found) = (text(&toleration.value), text(&taint.value));
    let numbers = || Some((wanted.parse::<i64>().ok()?, found.parse::<i64>().ok()?));
    match toleration.operator.as_deref().unwrap_or_default() {
        "" | "Equal" => wanted == found,
        "Exists" => true,
        "Lt" => numbers().is_some_and(|(wanted, found)| found < wanted),
        "Gt" => numbers().is_some_and(|(wanted, found)| found > wanted),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn key_operator_value_and_effect_count() {
        let taint: Taint = serde_json::from_value(json!({"key": "k", "value": "5", "effect": "NoSchedule"})).unwrap();
        for (toleration, tolerated) in [
            (json!({"operator": "Exists"}), true),
            (json!({"key": "k", "operator": "Exists", "effect": "NoExecute"}), false),
            (json!({"key": "k", "value": "5"}), true),
            (json!({"key": "k", "value": "6"}), false),
            (json!({"key": "o", "operator": "Exists"}), false),
            (json!({"key": "k", "operator": "Lt", "value": "6"}), true),
            (json!({"key": "k", "operator": "Gt", "value": "6"}), false),
        ] {
            let parsed: Toleration = serde_json::from_value(toleration.clone()).unwrap();
            assert_eq!(super::tolerated(&taint, [&parsed]), tolerated, "{toleration}");
        }
        let soft = Taint { effect: SOFT.to_owned(), ..taint.clone() };
        assert!(first_untolerated(&[soft], &[]).is_none());
        assert!(first_untolerated(&[taint], &[]).is_some());
    }
}
