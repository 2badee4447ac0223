//! Publishing and hearing over NATS and inside the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tokio::time::{Instant, timeout};
use trireme_bus::{
    Bus, BusMessage, Head, Hint, Missing, NatsOptions, Position, Publisher, Sequence, Subscriber, Verdict,
};
use trireme_testkit::poll::{self, PATIENCE};

use crate::server::Server;

const CLUSTER: u64 = 7;

fn message(revision: i64) -> BusMessage {
    BusMessage {
        cluster_id: CLUSTER,
        incarnation: "a".to_owned(),
        term: 1,
        revision,
        previous_revision: revision - 1,
        ..BusMessage::default()
    }
}

/// A leader whose head is `revision`; below zero it does not lead.
fn leader(bus: &Bus) -> (Publisher, Arc<AtomicI64>) {
    let revision = Arc::new(AtomicI64::new(-1));
    let head = Arc::clone(&revision);
    let publisher = bus.publisher(move || {
        let revision = head.load(Ordering::SeqCst);
        (revision >= 0).then(|| Head { cluster_id: CLUSTER, incarnation: "a".to_owned(), term: 1, revision })
    });
    (publisher, revision)
}

async fn next(subscriber: &mut Subscriber) -> Hint {
    timeout(PATIENCE, subscriber.next()).await.expect("a hint in time")
}

async fn next_revision(subscriber: &mut Subscriber) -> i64 {
    loop {
        if let Hint::Revision { message, .. } = next(subscriber).await {
            return message.revision;
        }
    }
}

async fn nats(server: &Server, name: &str) -> Bus {
    let bus = Bus::nats(&NatsOptions::new(server.url(), name)).await.unwrap();
    connected(&bus).await;
    bus
}

async fn connected(bus: &Bus) {
    poll::holds("a connection", || bus.connected()).await.unwrap();
}

async fn revisions_and_heads(publishing: Bus, listening: Bus) {
    let mut subscriber = listening.subscribe(CLUSTER).await.unwrap();
    let mut stranger = listening.subscribe(CLUSTER + 1).await.unwrap();
    let (publisher, head) = leader(&publishing);
    for revision in 1..=100 {
        publisher.publish(message(revision), None);
    }
    for revision in 1..=100 {
        assert_eq!(next_revision(&mut subscriber).await, revision);
    }
    head.store(100, Ordering::SeqCst);
    assert!(matches!(next(&mut subscriber).await, Hint::Head(head) if head.revision == 100));
    // Nothing of it came to who listens to another cluster: the first that comes there is that cluster's.
    publisher.publish(BusMessage { cluster_id: CLUSTER + 1, ..message(7) }, None);
    assert!(
        matches!(next(&mut stranger).await, Hint::Revision { message, .. } if (message.cluster_id, message.revision) == (CLUSTER + 1, 7))
    );
}

#[tokio::test]
async fn revisions_and_heads_over_nats() {
    let server = Server::start();
    revisions_and_heads(nats(&server, "store").await, nats(&server, "apiserver").await).await;
}

#[tokio::test]
async fn revisions_and_heads_inside_the_process() {
    let bus = Bus::in_process();
    revisions_and_heads(bus.clone(), bus).await;
}

#[tokio::test]
async fn a_slow_reader_inside_the_process_is_told() {
    let bus = Bus::in_process();
    let mut subscriber = bus.subscribe(CLUSTER).await.unwrap();
    let (publisher, _) = leader(&bus);
    for revision in 1..=20_000 {
        publisher.publish(message(revision), None);
        if revision % 50 == 0 {
            tokio::task::yield_now().await;
        }
    }
    loop {
        if next(&mut subscriber).await == Hint::Interrupted {
            return;
        }
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_no_error() {
    let mut server = Server::start();
    let url = server.url();
    server.kill();
    let bus = Bus::nats(&NatsOptions::new(url, "store")).await.unwrap();
    assert!(!bus.connected());
    let mut subscriber = timeout(PATIENCE, bus.subscribe(CLUSTER)).await.unwrap().unwrap();
    let (publisher, head) = leader(&bus);
    for revision in 1..=10_000 {
        publisher.publish(message(revision), None);
    }
    head.store(10_000, Ordering::SeqCst);
    server.restart();
    connected(&bus).await;
    // What was published meanwhile is gone; the next head is heard.
    loop {
        match next(&mut subscriber).await {
            Hint::Head(head) => return assert_eq!(head.revision, 10_000),
            Hint::Interrupted => {}
            Hint::Revision { message, .. } => panic!("revision {} was kept", message.revision),
        }
    }
}

#[tokio::test]
async fn what_a_dead_server_loses_is_found() {
    let mut server = Server::start();
    let publishing = nats(&server, "store").await;
    let listening = nats(&server, "apiserver").await;
    let mut subscriber = listening.subscribe(CLUSTER).await.unwrap();
    let (publisher, head) = leader(&publishing);
    head.store(0, Ordering::SeqCst);
    let mut sequence = Sequence::new(CLUSTER, "a", 0, Instant::now());
    let mut applied = 0;
    let mut delivered = Vec::new();
    let mut apply = |upto: i64| {
        for revision in applied + 1..=upto {
            publisher.publish(message(revision), None);
        }
        applied = upto;
        head.store(upto, Ordering::SeqCst);
    };

    apply(10);
    follow(&mut sequence, &mut subscriber, &mut delivered, 10).await;
    server.kill();
    let silent = async {
        loop {
            if sequence.due(Instant::now()) == Some(Missing::Silent) {
                return;
            }
            let deadline = sequence.deadline().expect("silence is to come");
            let _ = timeout(deadline.saturating_duration_since(Instant::now()), subscriber.next()).await.map(|hint| {
                if let Hint::Head(head) = hint {
                    sequence.head(&head, Instant::now());
                }
            });
        }
    };
    timeout(PATIENCE, silent).await.expect("the silence is noticed");
    apply(20);
    tokio::task::yield_now().await;
    server.restart();
    connected(&publishing).await;
    connected(&listening).await;
    apply(30);
    follow(&mut sequence, &mut subscriber, &mut delivered, 30).await;
    assert_eq!(delivered, (1..=30).collect::<Vec<_>>());
}

/// Follows the bus, reading what is missing from "the store", until `upto` is delivered.
async fn follow(sequence: &mut Sequence, subscriber: &mut Subscriber, delivered: &mut Vec<i64>, upto: i64) {
    let limit = Instant::now() + PATIENCE;
    while sequence.revision() < upto {
        assert!(Instant::now() < limit, "not delivered in time: {delivered:?}");
        if let Some(Missing::Gap { from, to }) = sequence.due(Instant::now()) {
            delivered.extend(from..=to);
            sequence.advance(to);
        }
        let wait = sequence.deadline().unwrap_or(limit).saturating_duration_since(Instant::now());
        match timeout(wait, subscriber.next()).await {
            Ok(Hint::Revision { message, .. }) => loop {
                match sequence.message(&Position::from(&message), Instant::now()) {
                    Verdict::Gap { from, to } => {
                        delivered.extend(from..=to);
                        sequence.advance(to);
                    }
                    Verdict::Deliver => {
                        delivered.push(message.revision);
                        break;
                    }
                    _ => break,
                }
            },
            Ok(Hint::Head(head)) => {
                sequence.head(&head, Instant::now());
            }
            Ok(Hint::Interrupted) | Err(_) => {}
        }
    }
}
