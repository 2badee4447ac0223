//! Group `coordination.k8s.io`: one file a kind.

mod lease;

use crate::definition::Definition;

/// The kinds of the group.
pub(crate) fn definitions() -> Vec<Definition> {
    vec![lease::definition()]
}
