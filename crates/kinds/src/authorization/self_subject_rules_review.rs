//! SelfSubjectRulesReview (v1 of authorization.k8s.io).

use crate::definition::Definition;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews")
        .cluster()
        .only(&["create"])
        .not_stored()
}
