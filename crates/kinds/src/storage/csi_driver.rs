//! CSIDriver (v1 of storage.k8s.io).

use serde_json::Value;

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, field};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("storage.k8s.io", "v1", "CSIDriver", "csidrivers").cluster().conditional_update().table(TABLE)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("AttachRequired", "boolean", field("storage.v1.CSIDriverSpec", "attachRequired"), |o, _| {
        cells::truth(o, "spec.attachRequired", true)
    }),
    column("PodInfoOnMount", "boolean", field("storage.v1.CSIDriverSpec", "podInfoOnMount"), |o, _| {
        cells::truth(o, "spec.podInfoOnMount", false)
    }),
    column("StorageCapacity", "boolean", field("storage.v1.CSIDriverSpec", "storageCapacity"), |o, _| {
        cells::truth(o, "spec.storageCapacity", false)
    }),
    column("TokenRequests", "string", field("storage.v1.CSIDriverSpec", "tokenRequests"), |o, _| {
        token_requests(o).into()
    }),
    column("RequiresRepublish", "boolean", field("storage.v1.CSIDriverSpec", "requiresRepublish"), |o, _| {
        cells::truth(o, "spec.requiresRepublish", false)
    }),
    column("Modes", "string", field("storage.v1.CSIDriverSpec", "volumeLifecycleModes"), |o, _| modes(o).into()),
    AGE,
];

fn token_requests(driver: &Value) -> String {
    match cells::at(driver, "spec.tokenRequests").as_array() {
        Some(requests) => requests.iter().map(|r| cells::str(r, "audience")).collect::<Vec<_>>().join(","),
        None => "<unset>".to_owned(),
    }
}

fn modes(driver: &Value) -> String {
    let modes: Vec<&str> = cells::list(driver, "spec.volumeLifecycleModes").iter().filter_map(Value::as_str).collect();
    if modes.is_empty() { "<none>".to_owned() } else { modes.join(",") }
}
