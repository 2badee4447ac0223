//! The publisher: tells the bus what the leader applies. The bus may lose any of it; it never holds up anything here.
use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;
use trireme_bus::{Bus, BusMessage, Head};
use trireme_telemetry::TraceParent;

use crate::raft::{Applied, Node};

/// Runs until the node is gone. `election` is how old a quorum's confirmation of the leader may be.
pub(crate) async fn run(node: Node, bus: Bus, election: Duration) {
    let mut recent = node.outlet().recent.subscribe();
    let heads = node.clone();
    let publisher = bus.publisher(move || head(&heads, election));
    drop(bus);
    loop {
        match recent.recv().await {
            Ok(applied) => {
                let standing = node.standing();
                if standing.leads {
                    publisher.publish(message(&node, standing.term, &applied), TraceParent::parse(&applied.traceparent));
                }
            }
            // Readers find the gap and read it from the store.
            Err(RecvError::Lagged(missed)) => {
                metrics::counter!("trireme_bus_dropped_total", "reason" => "store behind").increment(missed);
            }
            Err(RecvError::Closed) => return,
        }
    }
}

/// The head, while this member leads and a quorum confirmed it not long ago.
fn head(node: &Node, election: Duration) -> Option<Head> {
    let standing = node.standing();
    if !standing.leads || standing.since_quorum.is_none_or(|since| since > election) {
        return None;
    }
    let view = node.view();
    Some(Head {
        cluster_id: node.cluster_id(),
        incarnation: view.state.incarnation.to_string(),
        term: standing.term,
        revision: view.state.revision,
    })
}

fn message(node: &Node, term: u64, applied: &Applied) -> BusMessage {
    BusMessage {
        cluster_id: node.cluster_id(),
        incarnation: node.view().state.incarnation.to_string(),
        term,
        revision: applied.revision,
        previous_revision: applied.revision - 1,
        events: applied.changes.iter().map(|change| change.to_event(true)).collect(),
        headers_only: false,
    }
}
