//! Group `resource.k8s.io`: one file a kind.

mod defaults;
mod device_class;
mod device_taint_rule;
mod resource_claim;
mod resource_claim_template;
mod resource_slice;

pub(crate) use defaults::DEFAULTS;

use crate::definition::Definition;

/// The kinds of the group.
pub(crate) fn definitions() -> Vec<Definition> {
    vec![
        device_class::definition(),
        device_taint_rule::definition(),
        resource_claim::definition(),
        resource_claim_template::definition(),
        resource_slice::definition(),
    ]
}
