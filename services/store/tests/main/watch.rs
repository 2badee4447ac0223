//! Watches: each revision once, in order, whole.
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use trireme_proto::etcdserverpb as pb;
use trireme_proto::etcdserverpb::request_op::Request;
use trireme_proto::etcdserverpb::watch_request::RequestUnion;
use trireme_proto::mvccpb::Event;
use trireme_testkit::poll::PATIENCE;

use crate::support::{Client, Cluster, end_of};

/// Watches one prefix from a revision. The stream is the client's only one.
pub(crate) async fn open(client: &Client, prefix: &str, start_revision: i64) -> Streaming<pb::WatchResponse> {
    let create = pb::WatchCreateRequest {
        key: prefix.to_owned().into(),
        range_end: end_of(prefix),
        start_revision,
        prev_kv: true,
        ..Default::default()
    };
    let (requests, outgoing) = mpsc::channel(4);
    requests.send(pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) }).await.unwrap();
    let stream = client.watches().watch(ReceiverStream::new(outgoing)).await.unwrap().into_inner();
    // Half-closing is fine: the stream goes on.
    drop(requests);
    stream
}

/// Reads events until that revision was seen.
pub(crate) async fn read_until(stream: &mut Streaming<pb::WatchResponse>, revision: i64) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    let mut split = None;
    let reading = async {
        while events.last().is_none_or(|e| e.kv.as_ref().unwrap().mod_revision < revision) {
            let response = stream.message().await.unwrap().unwrap();
            assert!(!response.canceled, "{response:?}");
            let first = response.events.first().map(|e| e.kv.as_ref().unwrap().mod_revision);
            if first.is_some() && first == split {
                panic!("revision {first:?} came in two responses");
            }
            split = response.events.last().map(|e| e.kv.as_ref().unwrap().mod_revision).or(split);
            events.extend(response.events);
        }
    };
    assert!(tokio::time::timeout(PATIENCE, reading).await.is_ok(), "no revision {revision} within {PATIENCE:?}");
    events
}

/// Every revision from one to another is there, with so many events, once, in order.
pub(crate) fn check_each_once(events: &[Event], revisions: std::ops::RangeInclusive<i64>, each: usize) {
    let seen: Vec<i64> = events.iter().map(|e| e.kv.as_ref().unwrap().mod_revision).collect();
    let expected: Vec<i64> = revisions.flat_map(|r| std::iter::repeat_n(r, each)).collect();
    assert_eq!(seen, expected);
}

async fn put_three(client: &Client, n: i64) -> i64 {
    let put =
        |k: &str| pb::PutRequest { key: format!("w/{k}").into(), value: n.to_string().into(), ..Default::default() };
    let success = ["c", "a", "b"].map(|k| pb::RequestOp { request: Some(Request::RequestPut(put(k))) }).to_vec();
    let txn = pb::TxnRequest { success, ..Default::default() };
    client.kv().txn(txn).await.unwrap().into_inner().header.unwrap().revision
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_from_anywhere_see_the_same() {
    let cluster = Cluster::start(1, &[]).await;
    let client = cluster.client(0);
    let first = put_three(&client, 0).await;
    let mut from_the_start = open(&client, "w/", first).await;
    let mut from_later = open(&client, "w/", first + 150).await;
    let (mut last, mut from_the_middle) = (first, None);
    for n in 1..=300 {
        last = put_three(&client, n).await;
        if n == 100 {
            from_the_middle = Some(open(&client, "w/", first + 50).await);
        }
    }
    check_each_once(&read_until(&mut from_the_start, last).await, first..=last, 3);
    check_each_once(&read_until(&mut from_later, last).await, first + 150..=last, 3);
    check_each_once(&read_until(&mut from_the_middle.unwrap(), last).await, first + 50..=last, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_that_does_not_read_holds_up_nobody_and_misses_nothing() {
    let cluster = Cluster::start(1, &[]).await;
    let client = cluster.client(0);
    let first = put_three(&client, 0).await;
    let mut slow = open(&client, "w/", first + 1).await;
    // Far more than the windows and queues on the way hold.
    let mut puts = tokio::task::JoinSet::new();
    for i in 0..200 {
        let client = client.clone();
        puts.spawn(async move { client.put(&format!("w/big{i}"), vec![b'x'; 200_000]).await.unwrap() });
    }
    let mut last = first;
    let writing = async {
        while let Some(revision) = puts.join_next().await {
            last = last.max(revision.unwrap());
        }
    };
    tokio::time::timeout(PATIENCE, writing).await.expect("writes go on");
    check_each_once(&read_until(&mut slow, last).await, first + 1..=last, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compaction_ends_watches_of_what_is_gone_only() {
    let cluster = Cluster::start(1, &[]).await;
    let client = cluster.client(0);
    let first = put_three(&client, 0).await;
    let mut running = open(&client, "w/", first + 1).await;
    let mut last = first;
    for n in 1..=50 {
        last = put_three(&client, n).await;
        client.compact(last).await.unwrap();
    }
    check_each_once(&read_until(&mut running, last).await, first + 1..=last, 3);
    let mut gone = open(&client, "w/", first).await;
    assert!(gone.message().await.unwrap().unwrap().created);
    let ended = gone.message().await.unwrap().unwrap();
    assert!(ended.canceled);
    assert_eq!(ended.compact_revision, last);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compaction_behind_a_slow_stream_ends_only_what_it_took_something_from() {
    let cluster = Cluster::start(1, &[]).await;
    let client = cluster.client(0);
    // Two watches on one stream: one that will have missed something, one that waits for what is still to come.
    let first = client.put("a/0", "x").await.unwrap();
    let awaited = first + 6001;
    let create = |prefix: &str, id, start_revision| pb::WatchRequest {
        request_union: Some(RequestUnion::CreateRequest(pb::WatchCreateRequest {
            key: prefix.to_owned().into(),
            range_end: end_of(prefix),
            start_revision,
            watch_id: id,
            ..Default::default()
        })),
    };
    let (requests, outgoing) = mpsc::channel(4);
    requests.send(create("a/", 1, first + 1)).await.unwrap();
    requests.send(create("b/", 2, awaited)).await.unwrap();
    let mut stream = client.watches().watch(ReceiverStream::new(outgoing)).await.unwrap().into_inner();
    for _ in 0..2 {
        assert!(stream.message().await.unwrap().unwrap().created);
    }
    // Nobody reads: the windows on the way fill, then the stream falls behind what is kept for quick ones.
    for batch in 0..60 {
        let puts = (0..100).map(|i| client.put("a/x", vec![b'x'; 4000 + batch + i]));
        futures::future::try_join_all(puts).await.unwrap();
    }
    let wanted = client.put("b/0", "x").await.unwrap();
    assert_eq!(wanted, awaited);
    let last = client.put("b/1", "x").await.unwrap();
    client.compact(wanted).await.unwrap();
    let mut seen = Vec::new();
    while !seen.contains(&last) {
        let response = tokio::time::timeout(PATIENCE, stream.message()).await.expect("goes on").unwrap().unwrap();
        match response.watch_id {
            1 => assert!(!response.canceled || response.compact_revision == wanted),
            _ => seen.extend(response.events.iter().map(|e| e.kv.as_ref().unwrap().mod_revision)),
        }
    }
    assert_eq!(seen, [wanted, last], "each once, in order");
}
