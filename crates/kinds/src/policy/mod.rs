//! Group `policy`: one file a kind.

mod pod_disruption_budget;

use crate::definition::Definition;

/// The kinds of the group.
pub(crate) fn definitions() -> Vec<Definition> {
    vec![pod_disruption_budget::definition()]
}
