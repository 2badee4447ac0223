//! Group `discovery.k8s.io`: one file a kind.

mod defaults;
mod endpoint_slice;

pub(crate) use defaults::DEFAULTS;

use crate::definition::Definition;

/// The kinds of the group.
pub(crate) fn definitions() -> Vec<Definition> {
    vec![endpoint_slice::definition()]
}
