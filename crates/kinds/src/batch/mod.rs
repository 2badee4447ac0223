//! Group `batch`: one file a kind.

mod cron_job;
mod defaults;
mod indexes;
mod job;
mod schedule;
mod update;
mod validate;

pub(crate) use defaults::DEFAULTS;

use crate::definition::Definition;

/// The kinds of the group.
pub(crate) fn definitions() -> Vec<Definition> {
    vec![cron_job::definition(), job::definition()]
}
