//! Lists: selections, pages, versions.

use serde_json::{Value, json};

use crate::harness::Cluster;

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn pages_show_one_state() {
    let cluster = Cluster::start().await;
    let maps = cluster.namespace("a").await;
    for name in ["a", "b", "c", "d", "e"] {
        cluster.post(&maps, &json!({"metadata": {"name": name}})).await;
    }
    let first = cluster.get(&format!("{maps}?limit=2")).await.json();
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    // What happens between the pages is not seen.
    cluster.post(&maps, &json!({"metadata": {"name": "bb"}})).await;
    cluster.delete(&format!("{maps}/d")).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = cluster.get(&format!("{maps}?limit=2&continue={token}")).await.json();
    assert_eq!(names(&second), ["c", "d"]);
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    let token = second["metadata"]["continue"].as_str().unwrap();
    let third = cluster.get(&format!("{maps}?limit=2&continue={token}")).await.json();
    assert_eq!(names(&third), ["e"]);
    assert!(third["metadata"].get("continue").is_none());
    assert_eq!(names(&cluster.get(&maps).await.json()), ["a", "b", "bb", "c", "e"]);
}

#[tokio::test]
async fn versions_are_honoured() {
    let cluster = Cluster::start().await;
    let maps = cluster.namespace("a").await;
    let made = cluster.post(&maps, &json!({"metadata": {"name": "x"}})).await;
    cluster.post(&maps, &json!({"metadata": {"name": "y"}})).await;
    let at = made.version();
    let exact = cluster.get(&format!("{maps}?resourceVersion={at}&resourceVersionMatch=Exact")).await.json();
    assert_eq!(names(&exact), ["x"]);
    assert_eq!(exact["metadata"]["resourceVersion"].as_str(), Some(at.as_str()));
    let later = cluster.get(&format!("{maps}?resourceVersion={at}")).await.json();
    assert_eq!(names(&later), ["x", "y"]);
    let ahead = cluster.get(&format!("{maps}?resourceVersion=999999999")).await;
    assert_eq!((ahead.status, ahead.reason().as_str()), (504, "Timeout"));
    assert!(ahead.message().starts_with("Timeout: Too large resource version: 999999999, current: "));
}

#[tokio::test]
async fn fields_select_what_a_kind_offers() {
    let cluster = Cluster::start().await;
    let maps = cluster.namespace("a").await;
    cluster.post(&maps, &json!({"metadata": {"name": "x"}})).await;
    cluster.post(&maps, &json!({"metadata": {"name": "y"}})).await;
    let one = cluster.get("/api/v1/configmaps?fieldSelector=metadata.name%3Dx,metadata.namespace%3Da").await.json();
    assert_eq!(names(&one), ["x"]);
    let refused = cluster.get(&format!("{maps}?fieldSelector=data.n%3Dc1")).await;
    assert_eq!(refused.status, 400);
    assert!(refused.message().contains("is not a known field selector"));
}

#[tokio::test]
async fn lists_come_as_tables_metadata_and_yaml() {
    let cluster = Cluster::start().await;
    let maps = cluster.namespace("a").await;
    cluster.post(&maps, &json!({"metadata": {"name": "x"}, "data": {"k": "1"}})).await;
    let accept = |form: &'static str| [("accept", form)];
    let table =
        cluster.send("GET", &maps, &accept("application/json;as=Table;v=v1;g=meta.k8s.io,application/json"), "").await;
    assert_eq!(table.json()["kind"], "Table");
    assert_eq!(table.json()["rows"][0]["cells"][0], "x");
    let form = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let partial = cluster.send("GET", &maps, &accept(form), "").await.json();
    assert_eq!(partial["kind"], "PartialObjectMetadataList");
    assert!(partial["items"][0].get("data").is_none());
    let yaml = cluster.send("GET", &format!("{maps}/x"), &accept("application/yaml"), "").await;
    assert_eq!(yaml.headers["content-type"], "application/yaml");
    assert!(yaml.text.contains("kind: ConfigMap"), "{}", yaml.text);
}
