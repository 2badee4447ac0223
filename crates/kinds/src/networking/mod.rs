//! Group `networking.k8s.io`: one file a kind.

mod defaults;
mod ingress;
mod ingress_class;
mod ip_address;
mod network_policy;
mod service_cidr;

pub(crate) use defaults::DEFAULTS;

use crate::definition::Definition;

/// The kinds of the group.
pub(crate) fn definitions() -> Vec<Definition> {
    vec![
        ingress_class::definition(),
        ingress::definition(),
        ip_address::definition(),
        network_policy::definition(),
        service_cidr::definition(),
    ]
}
