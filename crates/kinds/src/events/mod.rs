//! Group `events.k8s.io`: one file a kind.

mod event;

use crate::definition::Definition;

/// The kinds of the group.
pub(crate) fn definitions() -> Vec<Definition> {
    vec![event::definition()]
}
