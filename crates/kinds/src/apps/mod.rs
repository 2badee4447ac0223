//! Group `apps`: one file a kind.

mod controller_revision;
mod daemon_set;
mod defaults;
mod deployment;
mod replica_set;
mod stateful_set;

pub(crate) use defaults::DEFAULTS;

use crate::definition::Definition;

/// The kinds of the group.
pub(crate) fn definitions() -> Vec<Definition> {
    vec![
        controller_revision::definition(),
        daemon_set::definition(),
        deployment::definition(),
        replica_set::definition(),
        stateful_set::definition(),
    ]
}
