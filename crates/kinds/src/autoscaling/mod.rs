//! Group `autoscaling`: one file a kind.

mod convert;
mod defaults;
mod horizontal_pod_autoscaler;
mod horizontal_pod_autoscaler_v1;

pub(crate) use defaults::DEFAULTS;

use crate::definition::Definition;

/// The kinds of the group.
pub(crate) fn definitions() -> Vec<Definition> {
    vec![horizontal_pod_autoscaler_v1::definition(), horizontal_pod_autoscaler::definition()]
}
