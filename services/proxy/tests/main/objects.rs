//! Objects for the tests, in YAML.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde::Deserialize;
use trireme_proxy::plan::{NodePorts, Options};

/// A state of the cluster.
#[derive(Deserialize)]
pub(crate) struct State {
    #[serde(default)]
    pub(crate) services: Vec<Service>,
    #[serde(default)]
    pub(crate) slices: Vec<EndpointSlice>,
    #[serde(default)]
    pub(crate) node: Option<Node>,
}

pub(crate) fn arcs<T: Clone>(objects: &[T]) -> Vec<Arc<T>> {
    objects.iter().cloned().map(Arc::new).collect()
}

pub(crate) fn options(table: &str) -> Options {
    Options {
        table: table.to_owned(),
        masquerade_mark: 0x4000,
        masquerade_all: false,
        cluster_cidrs: vec!["10.244.0.0/16".parse().unwrap()],
        node_ports: NodePorts::Primary,
    }
}
