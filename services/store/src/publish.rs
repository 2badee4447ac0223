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
                    publisher
                        .publish(message(&node, standing.term, &applied), TraceParent::parse(&applied.traceparent));
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use trireme_bus::Hint;
    use trireme_proto::etcdserverpb::PutRequest;
    use trireme_proto::raft::v1::command::Op;
    use trireme_service::CancellationToken;
    use trireme_service::tasks::Tasks;

    use super::*;
    use crate::raft::{Member, Settings};

    #[tokio::test]
    async fn every_revision_is_told_with_the_one_before_it_and_heads_follow() {
        let dir = tempfile::tempdir().unwrap();
        let election = Duration::from_millis(1000);
        let me = Member { name: "m".into(), peer_urls: vec!["http://127.0.0.1:1".into()], client_urls: Vec::new() };
        let settings = Settings {
            data_dir: dir.path().into(),
            id: 5,
            cluster_id: 9,
            members: BTreeMap::from([(5, me.clone())]),
            me,
            heartbeat: Duration::from_millis(100),
            election,
            tls: None,
        };
        let shutdown = CancellationToken::new();
        let tasks = Tasks::new(shutdown.clone());
        let node = Node::start(settings, &tasks).await.unwrap();
        node.initialize().await.unwrap();
        node.read_index().await.unwrap();
        let bus = Bus::in_process();
        let mut heard = bus.subscribe(9).await.unwrap();
        let publisher = tokio::spawn(run(node.clone(), bus, election));
        // The head says that the publisher listens.
        while !matches!(heard.next().await, Hint::Head(_)) {}
        for value in ["1", "2", "3"] {
            let put = PutRequest { key: "k".into(), value: value.into(), ..Default::default() };
            node.propose(Op::Put(put)).await.unwrap();
        }
        let mut revisions = Vec::new();
        while revisions.len() < 3 {
            if let Hint::Revision { message, .. } = heard.next().await {
                assert_eq!(message.previous_revision + 1, message.revision);
                assert_eq!(message.cluster_id, 9);
                let previous = message.events[0].prev_kv.as_ref().map(|kv| kv.mod_revision);
                assert_eq!(previous, (message.revision > 2).then_some(message.revision - 1));
                revisions.push(message.revision);
            }
        }
        assert_eq!(revisions, [2, 3, 4]);
        loop {
            if let Hint::Head(head) = heard.next().await
                && head.revision == 4
            {
                assert_eq!(head.incarnation, node.view().state.incarnation.as_ref());
                break;
            }
        }
        publisher.abort();
        node.stop().await;
        shutdown.cancel();
    }
}
