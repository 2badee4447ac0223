//! What is left of a request: metrics and audit events.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Cluster, PATIENCE};

#[tokio::test]
async fn names_that_a_caller_makes_up_are_no_series() {
    let cluster = Cluster::start().await;
    for path in ["/apis/zebra.example/v1/zebras", "/api/v1/zebras", "/apis/apps/v7zebra/deployments"] {
        assert_eq!(cluster.get(path).await.status, 404, "{path}");
    }
    cluster.send("ZEBRA", "/version", &[], "").await;
    cluster.get("/api/v1/nodes").await;
    let metrics = cluster.get("/metrics").await.text;
    assert!(!metrics.to_lowercase().contains("zebra"), "{metrics}");
    let counted = |line: &&str| line.starts_with("apiserver_request_total{") && line.contains("resource=\"nodes\"");
    assert!(metrics.lines().any(|line| counted(&line) && line.contains("verb=\"LIST\"")), "{metrics}");
}

#[tokio::test]
async fn refused_requests_are_counted_and_audited() {
    let dir = tempfile::tempdir().unwrap();
    let audit = dir.path().join("audit");
    let cluster = Cluster::start_with(&[&format!("--audit-log-path={}", audit.display())]).await;
    let stranger = cluster.send("GET", "/api/v1/nodes", &[("authorization", "Bearer wrong")], "").await;
    assert_eq!(stranger.status, 401);
    let odd = cluster.send("GET", "/api/v1/nodes", &[("accept", "application/odd")], "").await;
    assert_eq!(odd.status, 406);
    // Who may not ask at all learns nothing else.
    let headers = [("authorization", "Bearer wrong"), ("accept", "application/odd")];
    assert_eq!(cluster.send("GET", "/api/v1/nodes", &headers, "").await.status, 401);

    let metrics = cluster.get("/metrics").await.text;
    for code in ["code=\"401\"", "code=\"406\""] {
        let counted = metrics.lines().any(|line| line.starts_with("apiserver_request_total{") && line.contains(code));
        assert!(counted, "{code}: {metrics}");
    }
    let begun = Instant::now();
    let wanted = [(&stranger, 401), (&odd, 406)].map(|(answer, code)| {
        let id = answer.headers["audit-id"].to_str().unwrap().to_owned();
        (id, code)
    });
    loop {
        let text = std::fs::read_to_string(&audit).unwrap_or_default();
        let events: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let has = |(id, code): &(String, u16)| {
            events.iter().any(|event| event["auditID"] == **id && event["responseStatus"]["code"] == *code)
        };
        if wanted.iter().all(has) {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{wanted:?}: {text}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
