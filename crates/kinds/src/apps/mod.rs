//! Group `apps`: one file a kind.

mod controller_revision;
mod daemon_set;
mod deployment;
mod replica_set;
mod stateful_set;

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
