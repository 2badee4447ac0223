//! Group `scheduling.k8s.io`: one file a kind.

mod defaults;
mod priority_class;

pub(crate) use defaults::DEFAULTS;

use crate::definition::Definition;

/// The kinds of the group.
pub(crate) fn definitions() -> Vec<Definition> {
    vec![priority_class::definition()]
}
