//! SelfSubjectReview (v1 of authentication.k8s.io).

use crate::definition::Definition;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews")
        .cluster()
        .only(&["create"])
        .not_stored()
}
