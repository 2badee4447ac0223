//! Group `flowcontrol.apiserver.k8s.io`: one file a kind.

mod defaults;
mod flow_schema;
mod priority_level_configuration;

pub(crate) use defaults::DEFAULTS;

use crate::definition::Definition;

/// The kinds of the group.
pub(crate) fn definitions() -> Vec<Definition> {
    vec![flow_schema::definition(), priority_level_configuration::definition()]
}
