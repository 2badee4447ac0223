//! NodePorts: a port of a node can be had once.

use crate::framework::{Ask, Check, Filter, Prepared, Rejection};
use crate::hints::ClusterEvent;
use crate::model::{HostPort, NodeInfo, PodInfo};

/// A port of a node can be had once.
pub(crate) struct NodePorts;

struct Wanted<'a>(&'a [HostPort]);

impl Filter for NodePorts {
    fn name(&self) -> &'static str {
        "NodePorts"
    }

    fn prepare<'a>(&self, ask: Ask<'a>) -> Prepared<'a> {
        if ask.pod.ports.is_empty() { Prepared::Skip } else { Prepared::Check(Box::new(Wanted(&ask.pod.ports))) }
    }

    fn helps(&self, pod: &PodInfo, event: &ClusterEvent) -> bool {
        match event {
            ClusterEvent::PodGone { pod: gone, .. } => {
                gone.ports.iter().any(|freed| pod.ports.iter().any(|wanted| wanted.conflicts(freed)))
            }
            other => other.is_new_node(),
        }
    }
}

impl Check for Wanted<'_> {
    fn check(&self, node: &NodeInfo) -> Result<(), Rejection> {
        if node.takes_port(self.0) {
            return Err(Rejection::preemptible("node(s) didn't have free ports for the requested pod ports"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugins::testing::{cluster, judge};
    use crate::testing::{node, pod};

    #[test]
    fn address_protocol_and_number_must_differ_in_one() {
        let taken = json!({"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1"});
        let snapshot = cluster(vec![node("a")], vec![pod("q").port(taken).on("a")]);
        for (wanted, free) in [
            (json!({"containerPort": 1, "hostPort": 8080}), false),
            (json!({"containerPort": 1, "hostPort": 8080, "hostIP": "10.0.0.2"}), true),
            (json!({"containerPort": 1, "hostPort": 8080, "protocol": "UDP"}), true),
            (json!({"containerPort": 1, "hostPort": 8081}), true),
            (json!({"containerPort": 8080}), true),
        ] {
            let judged = judge(&NodePorts, &pod("p").port(wanted.clone()).info(), &snapshot);
            assert_eq!(judged[0].is_ok(), free, "{wanted}");
        }
    }
}
