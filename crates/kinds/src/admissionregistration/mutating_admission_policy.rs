//! MutatingAdmissionPolicy (v1 of admissionregistration.k8s.io).

use crate::definition::Definition;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("admissionregistration.k8s.io", "v1", "MutatingAdmissionPolicy", "mutatingadmissionpolicies")
        .cluster()
        .category("api-extensions")
        .generation()
        .conditional_update()
}
