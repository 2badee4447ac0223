//! PodCertificateRequest (v1 of certificates.k8s.io).

use crate::definition::Definition;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("certificates.k8s.io", "v1", "PodCertificateRequest", "podcertificaterequests")
        .status()
        .conditional_update()
}
