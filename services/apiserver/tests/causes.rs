//! The trace context of a write, beside its version.

use serde_json::json;
use trireme_proto::etcdserverpb::RangeRequest;
use trireme_proto::store::v1::Cause;

use crate::harness::Cluster;

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

async fn cause(cluster: &Cluster, key: &str) -> Cause {
    let request = RangeRequest { key: key.to_owned().into(), ..RangeRequest::default() };
    cluster.store().await.range(request).await.unwrap().into_inner().kvs.remove(0).cause.unwrap_or_default()
}

fn trace(parent: &str) -> &str {
    parent.split('-').nth(1).unwrap_or_default()
}

#[tokio::test]
async fn a_status_keeps_the_intent() {
    let cluster = Cluster::start().await;
    cluster.namespace("a").await;
    let services = "/api/v1/namespaces/a/services";
    let headers = [("traceparent", TRACE)];
    let body = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}).to_string();
    let made = cluster.send("POST", services, &headers, &body).await;
    assert_eq!(made.status, 201, "{}", made.text);
    // An administrator's trace is continued.
    assert_eq!(trace(made.headers["traceparent"].to_str().unwrap()), trace(TRACE));
    let first = cause(&cluster, "/registry/services/specs/a/s").await;
    assert_eq!((trace(&first.cause), trace(&first.intent)), (trace(TRACE), trace(TRACE)));

    let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}});
    let changed = cluster.merge(&format!("{services}/s/status"), &status).await;
    assert_eq!(changed.status, 200, "{}", changed.text);
    let second = cause(&cluster, "/registry/services/specs/a/s").await;
    assert_ne!(trace(&second.cause), trace(TRACE));
    assert_eq!(second.intent, first.intent);

    cluster.merge(&format!("{services}/s"), &json!({"metadata": {"labels": {"a": "b"}}})).await;
    let third = cause(&cluster, "/registry/services/specs/a/s").await;
    assert_ne!(third.intent, first.intent);
}

#[tokio::test]
async fn the_requests_of_one_kubectl_command_share_a_trace() {
    let cluster = Cluster::start().await;
    let maps = cluster.namespace("a").await;
    let session = [("kubectl-session", "8f0c2f0c-0000-4000-8000-000000000001")];
    let one = cluster.send("GET", &maps, &session, "").await;
    let two = cluster.send("POST", &maps, &session, "{\"metadata\":{\"name\":\"x\"}}").await;
    let ids: Vec<String> = [&one, &two].map(|a| trace(a.headers["traceparent"].to_str().unwrap()).to_owned()).into();
    assert_eq!(ids[0], ids[1]);
    assert_ne!(one.headers["traceparent"], two.headers["traceparent"]);
    let other = cluster.send("GET", &maps, &[("kubectl-session", "another")], "").await;
    assert_ne!(trace(other.headers["traceparent"].to_str().unwrap()), ids[0]);
}

#[tokio::test]
async fn heartbeats_are_not_traced() {
    let cluster = Cluster::start().await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let made = cluster.post(leases, &json!({"metadata": {"name": "l"}})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    assert!(!made.headers.contains_key("traceparent"));
    assert_eq!(cause(&cluster, "/registry/leases/kube-system/l").await, Cause::default());
}
