//! Watches over HTTP.

use serde_json::json;

use crate::harness::Cluster;

fn change(kind: &str, name: &str) -> (String, String) {
    (kind.to_owned(), name.to_owned())
}

#[tokio::test]
async fn a_watch_tells_what_enters_and_leaves_its_selection() {
    let cluster = Cluster::start().await;
    let maps = cluster.namespace("a").await;
    let x = cluster.post(&maps, &json!({"metadata": {"name": "x", "labels": {"tier": "back"}}})).await;
    let path = format!("{maps}?watch=1&resourceVersion={}&labelSelector=tier%3Dfront", x.version());
    let mut watch = cluster.watch(&path).await;
    let labelled = |tier: &str| json!({"metadata": {"labels": {"tier": tier}}});
    let entered = cluster.merge(&format!("{maps}/x"), &labelled("front")).await;
    cluster.merge(&format!("{maps}/x"), &json!({"data": {"k": "1"}})).await;
    let left = cluster.merge(&format!("{maps}/x"), &labelled("back")).await;
    cluster.merge(&format!("{maps}/x"), &json!({"data": {"k": "2"}})).await;
    cluster.merge(&format!("{maps}/x"), &labelled("front")).await;
    cluster.delete(&format!("{maps}/x")).await;
    let first = watch.next().await.unwrap();
    assert_eq!((first["type"].as_str(), &first["object"]), (Some("ADDED"), &entered.json()));
    assert_eq!(watch.change().await, change("MODIFIED", "x"));
    // The object as it was in the selection, at the version in which it left.
    let gone = watch.next().await.unwrap();
    assert_eq!(gone["type"], "DELETED");
    assert_eq!(gone["object"]["metadata"]["labels"]["tier"], "front");
    assert_eq!(gone["object"]["metadata"]["resourceVersion"].as_str(), Some(left.version().as_str()));
    assert_eq!(watch.change().await, change("ADDED", "x"));
    assert_eq!(watch.change().await, change("DELETED", "x"));
}

#[tokio::test]
async fn initial_events_end_with_a_bookmark() {
    let cluster = Cluster::start().await;
    let maps = cluster.namespace("a").await;
    for name in ["x", "y"] {
        cluster.post(&maps, &json!({"metadata": {"name": name}})).await;
    }
    let options =
        "watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1";
    let mut watch = cluster.watch(&format!("{maps}?{options}")).await;
    assert_eq!(watch.change().await, change("ADDED", "x"));
    assert_eq!(watch.change().await, change("ADDED", "y"));
    let end = watch.next().await.unwrap();
    assert_eq!(end["type"], "BOOKMARK");
    assert_eq!(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn a_version_that_is_gone_is_told_as_an_event() {
    let cluster = Cluster::start().await;
    let maps = cluster.namespace("a").await;
    let x = cluster.post(&maps, &json!({"metadata": {"name": "x"}})).await;
    let at: i64 = x.version().parse().unwrap();
    let request = trireme_proto::etcdserverpb::CompactionRequest { revision: at, ..Default::default() };
    cluster.store().await.compact(request).await.unwrap();
    let mut cluster = cluster;
    cluster.kill_api();
    cluster.start_api(&[]);
    cluster.ready().await;
    let mut watch = cluster.watch(&format!("{maps}?watch=1&resourceVersion=1")).await;
    let event = watch.next().await.unwrap();
    assert_eq!((event["type"].as_str(), event["object"]["code"].as_i64()), (Some("ERROR"), Some(410)), "{event}");
    assert_eq!(event["object"]["reason"], "Expired");
}

#[tokio::test]
async fn a_watch_resumes_after_the_server_died() {
    let mut cluster = Cluster::start().await;
    let maps = cluster.namespace("a").await;
    let first = cluster.post(&maps, &json!({"metadata": {"name": "x0"}})).await;
    for n in 1..20 {
        cluster.post(&maps, &json!({"metadata": {"name": format!("x{n}")}})).await;
    }
    cluster.kill_api();
    cluster.start_api(&[]);
    cluster.ready().await;
    let mut watch = cluster.watch(&format!("{maps}?watch=1&resourceVersion={}", first.version())).await;
    for n in 1..20 {
        assert_eq!(watch.change().await, change("ADDED", &format!("x{n}")));
    }
}
