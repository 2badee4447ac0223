//! Group `apiextensions.k8s.io`: one file a kind.

mod custom_resource_definition;
mod defaults;

pub(crate) use defaults::DEFAULTS;

use crate::definition::Definition;

/// The kinds of the group.
pub(crate) fn definitions() -> Vec<Definition> {
    vec![custom_resource_definition::definition()]
}
