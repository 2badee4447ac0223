//! Group `apiregistration.k8s.io`: one file a kind.

mod api_service;
mod defaults;

pub(crate) use defaults::DEFAULTS;

use crate::definition::Definition;

/// The kinds of the group.
pub(crate) fn definitions() -> Vec<Definition> {
    vec![api_service::definition()]
}
