//! Which endpoints take a service port's traffic.

use std::net::Ipv4Addr;

use crate::view::{Endpoint, NodeView, ServicePort};

type Address = (Ipv4Addr, u16);

/// The endpoints of a service port, by who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Of the whole cluster.
    pub(crate) cluster: Vec<Address>,
    /// Of this node.
    pub(crate) local: Vec<Address>,
    /// Some endpoint somewhere would answer: traffic that may not go there is dropped, not refused.
    pub(crate) any: bool,
}

impl Choice {
    /// Ready endpoints, or, while there is none, those that are about to go and still answer.
    pub(crate) fn new(port: &ServicePort, node: &NodeView) -> Self {
        let usable = |endpoint: &Endpoint| endpoint.ready || (endpoint.serving && endpoint.terminating);
        Self {
            cluster: in_zone(port, node).unwrap_or_else(|| best(port, |_| true)),
            local: best(port, |endpoint| endpoint.local),
            any: port.endpoints.values().any(usable),
        }
    }
}

fn best(port: &ServicePort, wanted: impl Fn(&Endpoint) -> bool) -> Vec<Address> {
    let select = |good: fn(&Endpoint) -> bool| -> Vec<Address> {
        port.endpoints.iter().filter(|(_, e)| wanted(e) && good(e)).map(|(address, _)| *address).collect()
    };
    let ready = select(|e| e.ready);
    if ready.is_empty() { select(|e| e.serving && e.terminating) } else { ready }
}

/// The ready endpoints meant for this node's zone, if all ready ones say which zones they are for and some say ours.
fn in_zone(port: &ServicePort, node: &NodeView) -> Option<Vec<Address>> {
    let zone = node.zone.as_ref()?;
    let mut ready = port.endpoints.iter().filter(|(_, endpoint)| endpoint.ready).peekable();
    ready.peek()?;
    let mut ours = Vec::new();
    for (address, endpoint) in ready {
        if endpoint.zones.is_empty() {
            return None;
        }
        if endpoint.zones.contains(zone) {
            ours.push(*address);
        }
    }
    (!ours.is_empty()).then_some(ours)
}
