//! Group `authentication.k8s.io`: one file a kind.

mod defaults;
mod self_subject_review;
mod token_review;

pub(crate) use defaults::DEFAULTS;

use crate::definition::Definition;

/// The kinds of the group.
pub(crate) fn definitions() -> Vec<Definition> {
    vec![self_subject_review::definition(), token_review::definition()]
}
