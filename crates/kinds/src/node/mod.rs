//! Group `node.k8s.io`: one file a kind.

mod runtime_class;

use crate::definition::Definition;

/// The kinds of the group.
pub(crate) fn definitions() -> Vec<Definition> {
    vec![runtime_class::definition()]
}
