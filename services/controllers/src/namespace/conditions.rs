//! What the conditions of a namespace say while it goes away. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NamespaceCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// What a round of deleting found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Groups that could not be asked for their resources.
    pub(super) undiscovered: Vec<(String, String)>,
    /// What could not be deleted or listed.
    pub(super) failures: Vec<String>,
    /// "configmaps." → how many remain.
    pub(super) remaining: BTreeMap<String, usize>,
    /// Finalizer → how many objects have it.
    pub(super) finalizers: BTreeMap<String, usize>,
    /// Pods remain, so nothing else was looked at.
    pub(super) waits_for_pods: bool,
}

impl Found {
    /// Nothing is left and nothing went wrong.
    pub(super) fn is_empty(&self) -> bool {
        self.undiscovered.is_empty() && self.failures.is_empty() && self.remaining.is_empty()
    }
}

struct Verdict {
    kind: &'static str,
    problem: Option<(&'static str, String)>,
    fine: (&'static str, &'static str),
}

/// The conditions after a round; `None` if they are as before.
pub(super) fn update(before: &[NamespaceCondition], found: &Found, now: Timestamp) -> Option<Vec<NamespaceCondition>> {
    let mut conditions = before.to_vec();
    for verdict in verdicts(found) {
        let (status, reason, message) = match verdict.problem {
            Some((reason, message)) => ("True", reason, message),
            None => ("False", verdict.fine.0, verdict.fine.1.to_owned()),
        };
        let next = NamespaceCondition {
            type_: verdict.kind.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_transition_time: Some(Time(now)),
        };
        match conditions.iter_mut().find(|c| c.type_ == verdict.kind) {
            None => conditions.push(next),
            Some(old) => {
                let since = if old.status == next.status { old.last_transition_time.take() } else { None };
                *old = NamespaceCondition { last_transition_time: since.or(next.last_transition_time.clone()), ..next };
            }
        }
    }
    (conditions != before).then_some(conditions)
}

fn verdicts(found: &Found) -> [Verdict; 5] {
    // Of the rest nothing is said as long as pods keep it from being looked at.
    let totals = !found.waits_for_pods;
    let list = |counts: &BTreeMap<String, usize>, word: &str| {
        let each: Vec<_> =
            counts.iter().map(|(what, count)| format!("{what} {word} {count} resource instances")).collect();
        each.join(", ")
    };
    let undiscovered = (!found.undiscovered.is_empty()).then(|| {
        let each: Vec<_> = found.undiscovered.iter().map(|(group, why)| format!("{group}: {why}")).collect();
        let text = format!(
            "Discovery failed for some groups, {} failing: unable to retrieve the complete list of server APIs: {}",
            each.len(),
            each.join(", ")
        );
        ("DiscoveryFailed", text)
    });
    let mut failures = found.failures.clone();
    failures.sort();
    let failed = (!failures.is_empty()).then(|| {
        let text =
            format!("Failed to delete all resource types, {} remaining: {}", failures.len(), failures.join(", "));
        ("ContentDeletionFailed", text)
    });
    let remaining = (totals && !found.remaining.is_empty())
        .then(|| ("SomeResourcesRemain", format!("Some resources are remaining: {}", list(&found.remaining, "has"))));
    let finalizers = (totals && !found.finalizers.is_empty()).then(|| {
        let text = format!("Some content in the namespace has finalizers remaining: {}", list(&found.finalizers, "in"));
        ("SomeFinalizersRemain", text)
    });
    [
        Verdict {
            kind: "NamespaceDeletionDiscoveryFailure",
            problem: undiscovered,
            fine: ("ResourcesDiscovered", "All resources successfully discovered"),
        },
        Verdict {
            kind: "NamespaceDeletionGroupVersionParsingFailure",
            problem: None,
            fine: ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
        },
        Verdict {
            kind: "NamespaceDeletionContentFailure",
            problem: failed,
            fine: ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
        },
        Verdict {
            kind: "NamespaceContentRemaining",
            problem: remaining,
            fine: ("ContentRemoved", "All content successfully removed"),
        },
        Verdict {
            kind: "NamespaceFinalizersRemaining",
            problem: finalizers,
            fine: ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text<'a>(conditions: &'a [NamespaceCondition], kind: &str) -> (&'a str, &'a str) {
        let condition = conditions.iter().find(|c| c.type_ == kind).unwrap();
        (condition.status.as_str(), condition.message.as_deref().unwrap())
    }

    #[test]
    fn a_finalizer_holds_the_namespace_up() {
        let found = Found {
            remaining: BTreeMap::from([("configmaps.".to_owned(), 1)]),
            finalizers: BTreeMap::from([("example.com/hold".to_owned(), 1)]),
            ..Found::default()
        };
        let now = Timestamp::UNIX_EPOCH;
        let conditions = update(&[], &found, now).unwrap();
        assert_eq!(
            text(&conditions, "NamespaceContentRemaining"),
            ("True", "Some resources are remaining: configmaps. has 1 resource instances")
        );
        assert_eq!(
            text(&conditions, "NamespaceFinalizersRemaining"),
            (
                "True",
                "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
            )
        );
        assert_eq!(text(&conditions, "NamespaceDeletionContentFailure").0, "False");
        assert_eq!(update(&conditions, &found, now), None);
        let after = update(&conditions, &Found::default(), now).unwrap();
        assert_eq!(text(&after, "NamespaceContentRemaining"), ("False", "All content successfully removed"));
    }

    #[test]
    fn pods_that_end_are_not_told_as_remaining() {
        let found =
            Found { remaining: BTreeMap::from([("pods.".to_owned(), 1)]), waits_for_pods: true, ..Found::default() };
        let conditions = update(&[], &found, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(text(&conditions, "NamespaceContentRemaining").0, "False");
    }
}
