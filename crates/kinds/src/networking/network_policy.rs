//! NetworkPolicy (v1 of networking.k8s.io).

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, field};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
        .short(&["netpol"])
        .generation()
        .table(TABLE)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Pod-Selector", "string", field("networking.v1.NetworkPolicySpec", "podSelector"), |o, _| {
        cells::selector(o, "spec.podSelector")
    }),
    AGE,
];
