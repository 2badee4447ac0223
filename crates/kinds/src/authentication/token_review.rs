//! TokenReview (v1 of authentication.k8s.io).

use crate::definition::Definition;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("authentication.k8s.io", "v1", "TokenReview", "tokenreviews")
        .cluster()
        .only(&["create"])
        .not_stored()
}
