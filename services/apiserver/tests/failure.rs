//! The store is away, and comes back.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{Cluster, PATIENCE};

#[tokio::test]
async fn without_the_store_writes_time_out_and_old_reads_work() {
    let mut cluster = Cluster::start().await;
    let maps = cluster.namespace("a").await;
    let made = cluster.post(&maps, &json!({"metadata": {"name": "x"}})).await;
    cluster.kill_store();

    let begun = Instant::now();
    let refused = cluster.post(&format!("{maps}?timeout=1s"), &json!({"metadata": {"name": "y"}})).await;
    assert_eq!((refused.status, refused.reason().as_str()), (504, "Timeout"), "{}", refused.text);
    assert!(begun.elapsed() < Duration::from_secs(3));
    let cached = cluster.get(&format!("{maps}?resourceVersion=0")).await;
    assert_eq!(cached.json()["items"][0]["metadata"]["name"], "x");
    assert_eq!(cluster.get(&format!("{maps}/x?resourceVersion=0")).await.version(), made.version());
    let linearizable = cluster.get(&format!("{maps}/x?timeout=1s")).await;
    assert_eq!(linearizable.status, 504, "{}", linearizable.text);

    cluster.start_store();
    let begun = Instant::now();
    while cluster.post(&format!("{maps}?timeout=1s"), &json!({"metadata": {"name": "z"}})).await.status != 201 {
        assert!(begun.elapsed() < PATIENCE, "no write after the store came back");
    }
    assert_eq!(cluster.get(&format!("{maps}/x")).await.status, 200);
}
