//! Group `scheduling.k8s.io`: one file a kind.

mod priority_class;

use crate::definition::Definition;

/// The kinds of the group.
pub(crate) fn definitions() -> Vec<Definition> {
    vec![
        priority_class::definition(),
    ]
}
