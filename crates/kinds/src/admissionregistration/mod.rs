//! Group `admissionregistration.k8s.io`: one file a kind.

mod defaults;
mod mutating_admission_policy;
mod mutating_admission_policy_binding;
mod mutating_webhook_configuration;
pub(crate) mod validate;
mod validating_admission_policy;
mod validating_admission_policy_binding;
mod validating_webhook_configuration;

pub(crate) use defaults::DEFAULTS;

use crate::definition::Definition;

/// The kinds of the group.
pub(crate) fn definitions() -> Vec<Definition> {
    vec![
        mutating_admission_policy::definition(),
        mutating_admission_policy_binding::definition(),
        mutating_webhook_configuration::definition(),
        validating_admission_policy::definition(),
        validating_admission_policy_binding::definition(),
        validating_webhook_configuration::definition(),
    ]
}
