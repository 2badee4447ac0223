//! EndpointSlice (v1 of discovery.k8s.io).

use crate::definition::Definition;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices").generation()
}
