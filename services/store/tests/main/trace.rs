//! The spans of a write.
use trireme_proto::etcdserverpb as pb;
use trireme_testkit::poll::{self, PATIENCE};

use crate::support::{Client, Cluster};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

async fn traced_put(client: &Client) {
    let put = pb::PutRequest { key: "traced".into(), ..Default::default() };
    let mut request = tonic::Request::new(put);
    request.metadata_mut().insert("traceparent", format!("00-{TRACE}-{CALLER}-01").parse().unwrap());
    client.kv().put(request).await.unwrap();
}

#[derive(Debug, Clone)]
struct Span {
    id: String,
    parent: String,
    name: String,
}

async fn spans(cluster: &Cluster, i: usize) -> Vec<Span> {
    let page = cluster.page(i, &format!("/debug/spans?trace={TRACE}")).await;
    let body = page.split_once("\r\n\r\n").unwrap().1;
    let from = body.find(['[', '{']).unwrap();
    let to = body.rfind([']', '}']).unwrap();
    let value: serde_json::Value = serde_json::from_str(&body[from..=to]).unwrap();
    let list = value.as_array().cloned().unwrap_or_else(|| value["spans"].as_array().cloned().unwrap());
    let text = |span: &serde_json::Value, field: &str| span[field].as_str().unwrap_or_default().to_owned();
    let span =
        |s: &serde_json::Value| Span { id: text(s, "spanId"), parent: text(s, "parentSpanId"), name: text(s, "name") };
    list.iter().map(span).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_traced_write_is_one_chain_over_all_members_and_is_told_once() {
    let mut cluster = Cluster::start(3, &[]).await;
    let leader = cluster.leader().await;
    let entry = (leader + 1) % 3;
    // A write without a trace leaves no span.
    cluster.client(entry).put("untraced", "x").await.unwrap();
    traced_put(&cluster.client(entry)).await;
    let all = poll::found("spans of all members", PATIENCE, async || {
        let mut all = Vec::new();
        for i in 0..3 {
            all.extend(spans(&cluster, i).await);
        }
        let count = |name: &str| all.iter().filter(|s| s.name == name).count();
        (count("mvcc.apply") == 3 && count("raft.replicate") >= 2).then_some(all)
    })
    .await
    .unwrap();
    let one = |name: &str| all.iter().find(|s| s.name == name).unwrap_or_else(|| panic!("no {name} in {all:?}"));
    assert_eq!(one("kv.Put").parent, CALLER);
    assert_eq!(one("raft.propose").parent, one("kv.Put").id);
    for span in all.iter().filter(|s| s.name == "mvcc.apply" || s.name == "raft.replicate") {
        assert_eq!(span.parent, one("raft.propose").id, "{span:?}");
    }
    // No orphan.
    assert!(all.iter().all(|s| s.parent == CALLER || all.iter().any(|p| p.id == s.parent)), "{all:?}");

    // A start applies the log again, but its spans were told.
    cluster.kill(leader);
    cluster.restart(leader).await;
    let again = spans(&cluster, leader).await;
    assert!(again.is_empty(), "{again:?}");
}
