//! Group `certificates.k8s.io`: one file a kind.

mod certificate_signing_request;
mod cluster_trust_bundle;
mod pod_certificate_request;

use crate::definition::Definition;

/// The kinds of the group.
pub(crate) fn definitions() -> Vec<Definition> {
    vec![
        certificate_signing_request::definition(),
        cluster_trust_bundle::definition(),
        pod_certificate_request::definition(),
    ]
}
