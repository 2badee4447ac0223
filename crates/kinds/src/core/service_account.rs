//! ServiceAccount (v1).

use trireme_machinery::gvk::GroupVersionKind;

use crate::definition::Definition;
use crate::table::NAME_AND_AGE;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("", "v1", "ServiceAccount", "serviceaccounts")
        .short(&["sa"])
        .subresource("token", GroupVersionKind::new("authentication.k8s.io", "v1", "TokenRequest"), &["create"])
        .table(NAME_AND_AGE)
}
