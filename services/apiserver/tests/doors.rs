//! The gRPC door: the same objects, with their revisions and causes.

use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tonic::Code;
use trireme_machinery::shard::Range;
use trireme_proto::resources::v1::watch_event::Type;
use trireme_proto::resources::v1::watch_request::{Close, Open, Progress, Request as Ask};
use trireme_proto::resources::v1::{Fence, Request, WatchEvent, WatchRequest};

use crate::harness::{Cluster, PATIENCE};

fn maps(verb: &str, name: &str) -> Request {
    Request {
        verb: verb.to_owned(),
        version: "v1".to_owned(),
        resource: "configmaps".to_owned(),
        namespace: "a".to_owned(),
        name: name.to_owned(),
        ..Request::default()
    }
}

#[tokio::test]
async fn both_doors_show_the_same_objects() {
    let cluster = Cluster::start().await;
    let path = cluster.namespace("a").await;
    let mut door = cluster.door("user-root").await;
    let body = json!({"metadata": {"name": "x"}, "data": {"k": "1"}}).to_string().into();
    let made = door.r#do(Request { body, ..maps("create", "") }).await.unwrap().into_inner();
    assert_eq!(made.code, 201);
    let object: Value = serde_json::from_slice(&made.body).unwrap();
    assert_eq!(object["metadata"]["resourceVersion"], made.revision.to_string());
    assert_eq!(cluster.get(&format!("{path}/x")).await.json(), object);
    assert!(made.cause.unwrap().intent.starts_with("00-"));

    let list = door.list(maps("list", "")).await.unwrap().into_inner().next().await.unwrap().unwrap();
    assert!(list.last && list.revision >= made.revision);
    assert!(list.items.iter().any(|item| item.object == made.body));

    let missing = door.r#do(maps("get", "nope")).await.unwrap_err();
    assert_eq!(missing.code(), Code::NotFound);
    let status: Value = serde_json::from_slice(missing.details()).unwrap();
    assert_eq!(status["message"], "configmaps \"nope\" not found");

    let gone = door.r#do(maps("delete", "x")).await.unwrap().into_inner();
    assert!(gone.revision > made.revision);
}

#[tokio::test]
async fn a_certificate_is_an_identity_and_roles_hold() {
    let cluster = Cluster::start().await;
    cluster.namespace("a").await;
    let mut door = cluster.door("user-alice").await;
    let refused = door.r#do(maps("get", "x")).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    assert!(refused.message().contains("User \"alice\" cannot get resource \"configmaps\""), "{refused}");
}

#[tokio::test]
async fn many_selections_share_a_stream() {
    let cluster = Cluster::start().await;
    let path = cluster.namespace("a").await;
    let mut door = cluster.door("user-root").await;
    let (mut asks, outgoing) = futures::channel::mpsc::channel(16);
    let mut events = door.watch(outgoing).await.unwrap().into_inner();
    let mut ask = async |ask: Ask| asks.send(WatchRequest { request: Some(ask) }).await.unwrap();
    let select = |id: u64, selector: &str| {
        let options = json!({"labelSelector": selector}).to_string().into();
        Ask::Open(Open { id, selection: Some(Request { options, ..maps("watch", "") }) })
    };
    ask(select(1, "tier=front")).await;
    ask(select(2, "tier=back")).await;
    ask(Ask::Progress(Progress { id: 1 })).await;
    ask(Ask::Progress(Progress { id: 2 })).await;
    let mut next =
        async || -> WatchEvent { tokio::time::timeout(PATIENCE, events.next()).await.unwrap().unwrap().unwrap() };
    let mut ready = vec![next().await, next().await];
    ready.sort_by_key(|event| event.id);
    assert!(ready.iter().all(|event| event.r#type() == Type::Progress && event.revision > 0), "{ready:?}");

    let made = cluster.post(&path, &json!({"metadata": {"name": "x", "labels": {"tier": "back"}}})).await;
    let event = next().await;
    assert_eq!((event.id, event.r#type()), (2, Type::Added));
    assert_eq!(event.revision.to_string(), made.version());
    assert_eq!(serde_json::from_slice::<Value>(&event.object).unwrap(), made.json());
    // The cause is the request that wrote it.
    let trace = made.headers["traceparent"].to_str().unwrap().to_owned();
    assert_eq!(event.cause.unwrap().cause, trace);

    ask(Ask::Close(Close { id: 2 })).await;
    assert_eq!(next().await.r#type(), Type::Closed);
    cluster.post(&path, &json!({"metadata": {"name": "y", "labels": {"tier": "back"}}})).await;
    ask(Ask::Progress(Progress { id: 1 })).await;
    let event = next().await;
    assert_eq!((event.id, event.r#type()), (1, Type::Progress));
}

#[tokio::test]
async fn a_writer_that_lost_its_claim_is_refused() {
    let cluster = Cluster::start().await;
    let path = cluster.namespace("a").await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let claim = cluster.post(leases, &json!({"metadata": {"name": "claim-0"}, "spec": {"holderIdentity": "w1"}})).await;
    assert_eq!(claim.status, 201, "{}", claim.text);
    let epoch: i64 = claim.version().parse().unwrap();
    let mut door = cluster.door("user-root").await;
    let write = |name: &str, claim: &str, epoch: i64| Request {
        body: json!({"metadata": {"name": name}}).to_string().into(),
        fence: Some(Fence {
            controller: "c".to_owned(),
            key: "a/x".to_owned(),
            shard: 0,
            epoch,
            claim: claim.to_owned(),
        }),
        ..maps("create", "")
    };
    door.r#do(write("one", "claim-0", epoch)).await.unwrap();
    // A claim that must not be there, and is not.
    door.r#do(write("two", "claim-1", 0)).await.unwrap();
    // The claim moves.
    cluster.merge(&format!("{leases}/claim-0"), &json!({"spec": {"holderIdentity": "w2"}})).await;
    let lost = door.r#do(write("three", "claim-0", epoch)).await.unwrap_err();
    assert_eq!(lost.code(), Code::Aborted);
    let status: Value = serde_json::from_slice(lost.details()).unwrap();
    assert_eq!(
        (status["code"].as_i64(), status["details"]["causes"][0]["reason"].as_str()),
        (Some(409), Some("ClaimLost"))
    );
    assert_eq!(cluster.get(&format!("{path}/three")).await.status, 404);
    tokio::time::timeout(Duration::from_secs(1), cluster.get(&format!("{path}/one"))).await.unwrap();
}

#[tokio::test]
async fn a_claim_is_good_for_its_shard_only() {
    let cluster = Cluster::start().await;
    cluster.namespace("a").await;
    // Two shards: one of them has the namespace.
    let halves = [Range::of(0, 2).unwrap(), Range::of(1, 2).unwrap()];
    let (own, other) = if halves[0].holds("a") { (halves[0], halves[1]) } else { (halves[1], halves[0]) };
    let elsewhere = (0..).map(|n| format!("b{n}")).find(|name| other.holds(name)).unwrap();
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let mut epochs = Vec::new();
    for (name, keys) in [("own", own), ("other", other)] {
        let annotations = json!({"trireme.dev/selector": keys.to_string()});
        let metadata = json!({"name": name, "annotations": annotations});
        let record = cluster.post(leases, &json!({"metadata": metadata, "spec": {"holderIdentity": "w1"}})).await;
        assert_eq!(record.status, 201, "{}", record.text);
        epochs.push(record.version().parse::<i64>().unwrap());
    }
    let mut door = cluster.door("user-root").await;
    let fence = |claim: usize, key: &str| Fence {
        controller: "c".to_owned(),
        key: key.to_owned(),
        shard: claim as u32,
        epoch: epochs[claim],
        claim: ["own", "other"][claim].to_owned(),
    };
    let write = |name: &str, fence: Fence| Request {
        body: json!({"metadata": {"name": name}}).to_string().into(),
        fence: Some(fence),
        ..maps("create", "")
    };
    door.r#do(write("x", fence(0, "a/x"))).await.unwrap();
    // Neither what is reconciled nor what is written may lie in another shard.
    for wrong in
        [write("y", fence(1, "a/y")), write("y", fence(0, &format!("{elsewhere}/y"))), write("y", fence(1, "y"))]
    {
        let refused = door.r#do(wrong).await.unwrap_err();
        assert_eq!(refused.code(), Code::Aborted, "{refused}");
        let status: Value = serde_json::from_slice(refused.details()).unwrap();
        assert_eq!((status["code"].as_i64(), status["reason"].as_str()), (Some(409), Some("Conflict")));
        assert_eq!(status["details"]["causes"][0]["reason"], "ClaimLost", "{status}");
    }
    let deleted = door.r#do(Request { fence: Some(fence(1, "x")), ..maps("delete", "x") }).await.unwrap_err();
    assert_eq!(deleted.code(), Code::Aborted);
    door.r#do(Request { fence: Some(fence(0, "a/x")), ..maps("delete", "x") }).await.unwrap();
    // Which shard a new cluster-scoped object is in, its uid says, and that nobody knows yet; but a Namespace has its name.
    let cluster_scoped = |resource: &str, name: &str| Request {
        resource: resource.to_owned(),
        namespace: String::new(),
        ..write(name, fence(1, name))
    };
    assert_eq!(door.r#do(cluster_scoped("nodes", "n")).await.unwrap_err().code(), Code::Aborted);
    door.r#do(cluster_scoped("namespaces", &elsewhere)).await.unwrap();
}
