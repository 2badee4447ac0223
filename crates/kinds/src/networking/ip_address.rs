//! IPAddress (v1 of networking.k8s.io).

use serde_json::Value;

use crate::cells;
use crate::definition::Definition;
use crate::table::{NAME, TableColumn, column, field};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("networking.k8s.io", "v1", "IPAddress", "ipaddresses").cluster().short(&["ip"]).table(TABLE)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] =
    &[NAME, column("ParentRef", "string", field("networking.v1.IPAddressSpec", "parentRef"), |o, _| parent(o).into())];

fn parent(address: &Value) -> String {
    match cells::at(address, "spec.parentRef") {
        Value::Null => "<none>".to_owned(),
        parent => {
            let parts = ["group", "resource", "namespace", "name"].map(|key| cells::str(parent, key));
            let resource = if parts[0].is_empty() { parts[1].to_owned() } else { format!("{}.{}", parts[1], parts[0]) };
            if parts[2].is_empty() {
                format!("{resource}/{}", parts[3])
            } else {
                format!("{resource}/{}/{}", parts[2], parts[3])
            }
        }
    }
}
