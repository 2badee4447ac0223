//! Endpoints (v1).

use serde_json::Value;

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, field};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("", "v1", "Endpoints", "endpoints")
        .short(&["ep"])
        .stored_at("services/endpoints")
        .create_on_update()
        .table(TABLE)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] =
    &[NAME, column("Endpoints", "string", field("core.v1.Endpoints", "subsets"), |o, _| endpoints(o).into()), AGE];

fn endpoints(endpoints: &Value) -> String {
    let mut all = Vec::new();
    for subset in cells::list(endpoints, "subsets") {
        let addresses = cells::list(subset, "addresses");
        let ports = cells::list(subset, "ports");
        if ports.is_empty() {
            all.extend(addresses.iter().map(|a| cells::str(a, "ip").to_owned()));
        }
        for port in ports {
            all.extend(addresses.iter().map(|a| match cells::str(a, "ip") {
                ip if ip.contains(':') => format!("[{ip}]:{}", cells::int(port, "port")),
                ip => format!("{ip}:{}", cells::int(port, "port")),
            }));
        }
    }
    cells::first(&all, 3, if cells::list(endpoints, "subsets").is_empty() { "<none>" } else { "" })
}
