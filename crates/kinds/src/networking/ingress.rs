//! Ingress (v1 of networking.k8s.io).

use std::collections::BTreeSet;

use serde_json::Value;

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, words};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("networking.k8s.io", "v1", "Ingress", "ingresses")
        .short(&["ing"])
        .stored_at("ingress")
        .generation()
        .status()
        .table(TABLE)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column(
        "Class",
        "string",
        words("The name of the IngressClass resource that should be used for additional configuration"),
        |o, _| cells::text_or(o, "spec.ingressClassName", "<none>"),
    ),
    column(
        "Hosts",
        "string",
        words("Hosts that incoming requests are matched against before the ingress rule"),
        |o, _| hosts(o).into(),
    ),
    column("Address", "string", words("Address is a list containing ingress points for the load-balancer"), |o, _| {
        address(o).into()
    }),
    column("Ports", "string", words("Ports of TLS configurations that open"), |o, _| {
        if cells::list(o, "spec.tls").is_empty() { "80".into() } else { "80, 443".into() }
    }),
    AGE,
];

fn hosts(ingress: &Value) -> String {
    let rules = cells::list(ingress, "spec.rules");
    let named: Vec<&str> = rules.iter().filter_map(|r| r["host"].as_str()).filter(|h| !h.is_empty()).take(3).collect();
    if named.is_empty() {
        "*".to_owned()
    } else if named.len() == 3 && rules.len() > 3 {
        format!("{} + {} more...", named.join(","), rules.len() - 3)
    } else {
        named.join(",")
    }
}

fn address(ingress: &Value) -> String {
    let points: BTreeSet<&str> = cells::list(ingress, "status.loadBalancer.ingress")
        .iter()
        .filter_map(|i| i["ip"].as_str().or(i["hostname"].as_str()))
        .filter(|address| !address.is_empty())
        .collect();
    points.into_iter().collect::<Vec<_>>().join(",")
}
