//! Records of what Services hold, after somebody else wrote to the store.

use std::time::Instant;

use serde_json::json;
use trireme_proto::etcdserverpb::{DeleteRangeRequest, PutRequest, RangeRequest};

use crate::harness::{Cluster, PATIENCE};

/// Beside the range of ports: it can't be given by chance.
const LEAKED: &str = "/registry/ranges/nodeports/40001";
/// The same, of a Service that may be on its way.
const YOUNG: &str = "/registry/ranges/nodeports/40002";

async fn is_there(cluster: &Cluster, key: &str) -> bool {
    let request = RangeRequest { key: key.to_owned().into(), count_only: true, ..RangeRequest::default() };
    cluster.store().await.range(request).await.unwrap().into_inner().count == 1
}

#[tokio::test]
async fn records_of_ports_and_addresses_are_mended() {
    let mut cluster = Cluster::start().await;
    let service = json!({"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    let made = cluster.post("/api/v1/namespaces/default/services", &service).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let spec = &made.json()["spec"];
    let port = format!("/registry/ranges/nodeports/{}", spec["ports"][0]["nodePort"]);
    let address = format!("/registry/ipaddresses/{}", spec["clusterIP"].as_str().unwrap());
    cluster.kill_api();

    let mut store = cluster.store().await;
    for key in [&port, &address] {
        assert!(is_there(&cluster, key).await, "{key}");
        let request = DeleteRangeRequest { key: key.clone().into(), ..DeleteRangeRequest::default() };
        store.delete_range(request).await.unwrap();
    }
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    for (key, made) in [(LEAKED, "2020-01-01T00:00:00Z"), (YOUNG, &now)] {
        let name = key.rsplit('/').next().unwrap();
        let record = json!({"apiVersion": "v1", "kind": "RangeAllocation", "data": {"holder": "default/gone"},
            "metadata": {"name": name, "uid": name, "creationTimestamp": made}});
        let request = PutRequest { key: key.into(), value: record.to_string().into(), ..PutRequest::default() };
        store.put(request).await.unwrap();
    }

    cluster.start_api(&[]);
    cluster.ready().await;
    let begun = Instant::now();
    while !is_there(&cluster, &port).await || !is_there(&cluster, &address).await || is_there(&cluster, LEAKED).await {
        assert!(begun.elapsed() < PATIENCE, "nothing is mended: {}", cluster.log());
    }
    assert!(is_there(&cluster, YOUNG).await);
    // What was recorded anew is the Service's: it goes with it.
    assert_eq!(cluster.delete("/api/v1/namespaces/default/services/s").await.status, 200);
    assert!(!is_there(&cluster, &port).await && !is_there(&cluster, &address).await);
}
