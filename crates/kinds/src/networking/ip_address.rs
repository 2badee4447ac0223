//! IPAddress (v1 of networking.k8s.io).

use crate::definition::Definition;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("networking.k8s.io", "v1", "IPAddress", "ipaddresses")
        .cluster()
        .short(&["ip"])
}
