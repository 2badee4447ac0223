//! Event (v1 of events.k8s.io).

use crate::definition::Definition;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("events.k8s.io", "v1", "Event", "events").short(&["ev"]).stored_as("v1").create_on_update()
}
