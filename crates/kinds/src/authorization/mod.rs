//! Group `authorization.k8s.io`: one file a kind.

mod local_subject_access_review;
mod self_subject_access_review;
mod self_subject_rules_review;
mod subject_access_review;

use crate::definition::Definition;

/// The kinds of the group.
pub(crate) fn definitions() -> Vec<Definition> {
    vec![
        local_subject_access_review::definition(),
        self_subject_access_review::definition(),
        self_subject_rules_review::definition(),
        subject_access_review::definition(),
    ]
}
