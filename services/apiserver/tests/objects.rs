//! One object's life.

use serde_json::json;

use crate::harness::Cluster;

#[tokio::test]
async fn an_object_is_made_read_changed_and_deleted() {
    let cluster = Cluster::start().await;
    let maps = cluster.namespace("a").await;
    let made = cluster.post(&maps, &json!({"metadata": {"name": "x"}, "data": {"k": "1"}})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let object = made.json();
    assert_eq!(object["kind"], "ConfigMap");
    assert_eq!(object["metadata"]["namespace"], "a");
    assert!(!object["metadata"]["uid"].as_str().unwrap().is_empty());
    assert!(made.headers.contains_key("audit-id"));
    assert!(made.headers.contains_key("traceparent"));

    let x = format!("{maps}/x");
    assert_eq!(cluster.get(&x).await.json(), object);
    assert_eq!(cluster.post(&maps, &json!({"metadata": {"name": "x"}})).await.reason(), "AlreadyExists");

    // Unchanged: not written.
    assert_eq!(cluster.put(&x, &object).await.version(), made.version());
    let mut changed = object.clone();
    changed["data"]["k"] = json!("2");
    let updated = cluster.put(&x, &changed).await;
    assert_eq!(updated.status, 200);
    assert_ne!(updated.version(), made.version());
    // Stale.
    let stale = cluster.put(&x, &object).await;
    assert_eq!((stale.status, stale.reason().as_str()), (409, "Conflict"));
    assert!(stale.message().contains("the object has been modified"), "{}", stale.text);
    // Without a version it goes through.
    changed["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    changed["data"]["k"] = json!("3");
    assert_eq!(cluster.put(&x, &changed).await.json()["data"]["k"], "3");

    let gone = cluster.delete(&x).await;
    assert_eq!((gone.status, gone.json()["status"].as_str()), (200, Some("Success")));
    assert_eq!(cluster.get(&x).await.status, 404);
    assert_eq!(cluster.delete(&x).await.reason(), "NotFound");
}

#[tokio::test]
async fn names_are_generated_and_dry_runs_write_nothing() {
    let cluster = Cluster::start().await;
    let maps = cluster.namespace("a").await;
    let made = cluster.post(&maps, &json!({"metadata": {"generateName": "pre-"}})).await;
    assert!(made.json()["metadata"]["name"].as_str().unwrap().starts_with("pre-"));
    let dry = cluster.post(&format!("{maps}?dryRun=All"), &json!({"metadata": {"name": "dry"}})).await;
    assert_eq!(dry.status, 201);
    assert_eq!(cluster.get(&format!("{maps}/dry")).await.status, 404);
}

#[tokio::test]
async fn patches_of_all_three_forms() {
    let cluster = Cluster::start().await;
    cluster.namespace("a").await;
    let web = json!({
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c1", "image": "i:1"}, {"name": "c2", "image": "i:1"}]},
            },
        },
    });
    let all = "/apis/apps/v1/namespaces/a/deployments";
    let made = cluster.post(all, &web).await;
    assert_eq!(made.status, 201, "{}", made.text);
    assert_eq!(made.json()["metadata"]["generation"], 1);
    assert_eq!(made.json()["spec"]["replicas"], 1);
    let one = format!("{all}/web");

    let strategic = json!({"spec": {"template": {"spec": {"containers": [{"name": "c2", "image": "i:2"}]}}}});
    let patched = cluster
        .send("PATCH", &one, &[("content-type", "application/strategic-merge-patch+json")], &strategic.to_string())
        .await;
    assert_eq!(patched.status, 200, "{}", patched.text);
    let containers = &patched.json()["spec"]["template"]["spec"]["containers"];
    assert_eq!((containers[0]["image"].as_str(), containers[1]["image"].as_str()), (Some("i:1"), Some("i:2")));
    assert_eq!(patched.json()["metadata"]["generation"], 2);

    assert_eq!(cluster.merge(&one, &json!({"spec": {"replicas": 3}})).await.json()["spec"]["replicas"], 3);
    let json_patch = json!([{"op": "replace", "path": "/spec/replicas", "value": 4}]);
    let patched =
        cluster.send("PATCH", &one, &[("content-type", "application/json-patch+json")], &json_patch.to_string()).await;
    assert_eq!(patched.json()["spec"]["replicas"], 4);

    // A status is changed through its subresource only, and counts no generation.
    let ignored = cluster.merge(&one, &json!({"status": {"replicas": 9}})).await;
    assert_ne!(ignored.json()["status"]["replicas"], 9);
    let status = cluster.merge(&format!("{one}/status"), &json!({"status": {"replicas": 9}})).await;
    assert_eq!(status.json()["status"]["replicas"], 9, "{}", status.text);
    assert_eq!(status.json()["metadata"]["generation"], 4);
}

#[tokio::test]
async fn secrets_are_sealed_in_the_store() {
    let cluster = Cluster::start().await;
    cluster.namespace("a").await;
    let secrets = "/api/v1/namespaces/a/secrets";
    let made = cluster.post(secrets, &json!({"metadata": {"name": "s"}, "stringData": {"password": "hunter2"}})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    assert_eq!(cluster.get(&format!("{secrets}/s")).await.json()["data"]["password"], "aHVudGVyMg==");
    let request =
        trireme_proto::etcdserverpb::RangeRequest { key: "/registry/secrets/a/s".into(), ..Default::default() };
    let stored = cluster.store().await.range(request).await.unwrap().into_inner().kvs.remove(0);
    assert!(stored.value.starts_with(b"k8s:enc:aesgcm:v1:key1:"));
    assert!(!stored.value.windows(8).any(|part| part == b"aHVudGVy"));
}

#[tokio::test]
async fn keys_and_values_are_upstreams() {
    let cluster = Cluster::start().await;
    let maps = cluster.namespace("a").await;
    let made = cluster.post(&maps, &json!({"metadata": {"name": "x"}, "data": {"k": "1"}})).await;
    let request =
        trireme_proto::etcdserverpb::RangeRequest { key: "/registry/configmaps/a/x".into(), ..Default::default() };
    let stored = cluster.store().await.range(request).await.unwrap().into_inner().kvs.remove(0);
    assert_eq!(stored.mod_revision.to_string(), made.version());
    let value: serde_json::Value = serde_json::from_slice(&stored.value).unwrap();
    assert_eq!((value["kind"].as_str(), value["apiVersion"].as_str()), (Some("ConfigMap"), Some("v1")));
    assert!(value["metadata"].get("resourceVersion").is_none());
    assert_eq!(
        stored.cause.unwrap().cause.split('-').nth(1),
        made.headers["traceparent"].to_str().unwrap().split('-').nth(1)
    );
}
