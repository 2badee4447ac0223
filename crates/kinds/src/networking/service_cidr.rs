//! ServiceCIDR (v1 of networking.k8s.io).

use serde_json::Value;

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, field};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("networking.k8s.io", "v1", "ServiceCIDR", "servicecidrs").cluster().status().table(TABLE)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("CIDRs", "string", field("networking.v1.ServiceCIDRSpec", "cidrs"), |o, _| {
        cells::list(o, "spec.cidrs").iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",").into()
    }),
    AGE,
];
