//! CertificateSigningRequest (v1 of certificates.k8s.io).

use crate::definition::Definition;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests")
        .cluster()
        .short(&["csr"])
        .serves("approval", "CertificateSigningRequest", &["get", "patch", "update"])
        .status()
}
