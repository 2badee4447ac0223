//! Grace, finalizers, preconditions, collections.

use serde_json::json;

use crate::harness::Cluster;

#[tokio::test]
async fn a_finalizer_keeps_an_object_until_it_is_taken_away() {
    let cluster = Cluster::start().await;
    let maps = cluster.namespace("a").await;
    let x = format!("{maps}/x");
    cluster.post(&maps, &json!({"metadata": {"name": "x", "finalizers": ["example.com/f"]}})).await;
    let marked = cluster.delete(&x).await;
    assert_eq!(marked.status, 200);
    assert!(marked.json()["metadata"]["deletionTimestamp"].is_string(), "{}", marked.text);
    assert_eq!(cluster.get(&x).await.status, 200);
    let more = cluster.merge(&x, &json!({"metadata": {"finalizers": ["example.com/f", "example.com/g"]}})).await;
    assert_eq!(more.status, 422, "{}", more.text);
    assert_eq!(cluster.merge(&x, &json!({"metadata": {"finalizers": null}})).await.status, 200);
    assert_eq!(cluster.get(&x).await.status, 404);
}

#[tokio::test]
async fn preconditions_and_propagation_hold() {
    let cluster = Cluster::start().await;
    let maps = cluster.namespace("a").await;
    let x = format!("{maps}/x");
    cluster.post(&maps, &json!({"metadata": {"name": "x"}})).await;
    let wrong = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "other"}});
    let refused = cluster.send("DELETE", &x, &[], &wrong.to_string()).await;
    assert_eq!((refused.status, refused.reason().as_str()), (409, "Conflict"));
    let orphaned = cluster.delete(&format!("{x}?propagationPolicy=Orphan")).await;
    assert_eq!(orphaned.json()["metadata"]["finalizers"], json!(["orphan"]));
    assert_eq!(cluster.delete(&format!("{x}?propagationPolicy=Frob")).await.status, 422);
}

#[tokio::test]
async fn a_scheduled_pod_has_time_to_end() {
    let cluster = Cluster::start().await;
    cluster.namespace("a").await;
    cluster.post("/api/v1/namespaces/a/serviceaccounts", &json!({"metadata": {"name": "default"}})).await;
    let pods = "/api/v1/namespaces/a/pods";
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n1"}});
    let made = cluster.post(pods, &pod).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let p = format!("{pods}/p");
    let marked = cluster.delete(&p).await;
    assert_eq!(marked.json()["metadata"]["deletionGracePeriodSeconds"], 30, "{}", marked.text);
    // It can only become shorter.
    let again = cluster.delete(&format!("{p}?gracePeriodSeconds=60")).await;
    assert_eq!(again.json()["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(cluster.get(&p).await.status, 200);
    assert_eq!(cluster.delete(&format!("{p}?gracePeriodSeconds=0")).await.status, 200);
    assert_eq!(cluster.get(&p).await.status, 404);
}

#[tokio::test]
async fn a_namespace_goes_when_its_finalizers_have() {
    let cluster = Cluster::start().await;
    let maps = cluster.namespace("a").await;
    let marked = cluster.delete("/api/v1/namespaces/a").await;
    assert_eq!(marked.json()["status"]["phase"], "Terminating", "{}", marked.text);
    let refused = cluster.post(&maps, &json!({"metadata": {"name": "x"}})).await;
    assert_eq!(refused.status, 403, "{}", refused.text);
    let mut namespace = cluster.get("/api/v1/namespaces/a").await.json();
    namespace["spec"]["finalizers"] = json!([]);
    assert_eq!(cluster.put("/api/v1/namespaces/a/finalize", &namespace).await.status, 200);
    assert_eq!(cluster.get("/api/v1/namespaces/a").await.status, 404);
}

#[tokio::test]
async fn a_collection_is_deleted_by_its_selection() {
    let cluster = Cluster::start().await;
    let maps = cluster.namespace("a").await;
    for (name, tier) in [("x", "front"), ("y", "back"), ("z", "front")] {
        cluster.post(&maps, &json!({"metadata": {"name": name, "labels": {"tier": tier}}})).await;
    }
    let deleted = cluster.delete(&format!("{maps}?labelSelector=tier%3Dfront")).await;
    assert_eq!(deleted.json()["items"].as_array().unwrap().len(), 2, "{}", deleted.text);
    let left = cluster.get(&format!("{maps}?labelSelector=tier")).await.json();
    assert_eq!(left["items"][0]["metadata"]["name"], "y");
    assert_eq!(left["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn many_of_a_collection_go_at_a_time() {
    let cluster = Cluster::start_with(&["--delete-collection-workers=8"]).await;
    let maps = cluster.namespace("a").await;
    for n in 0..40 {
        let finalizers = if n == 7 { json!(["example.com/f"]) } else { json!([]) };
        let metadata = json!({"name": format!("m{n}"), "finalizers": finalizers});
        assert_eq!(cluster.post(&maps, &json!({"metadata": metadata})).await.status, 201);
    }
    // One that can't be deleted is the answer.
    let wrong = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "other"}});
    let refused = cluster.send("DELETE", &maps, &[], &wrong.to_string()).await;
    assert_eq!((refused.status, refused.reason().as_str()), (409, "Conflict"), "{}", refused.text);
    assert_eq!(cluster.get(&maps).await.json()["items"].as_array().unwrap().len(), 40);

    let deleted = cluster.delete(&maps).await;
    assert_eq!((deleted.status, deleted.json()["items"].as_array().unwrap().len()), (200, 40), "{}", deleted.text);
    let left = cluster.get(&maps).await.json();
    let names: Vec<_> = left["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]).collect();
    assert_eq!(names, ["m7"]);
    assert!(left["items"][0]["metadata"]["deletionTimestamp"].is_string());
}

#[tokio::test]
async fn who_deletes_a_job_hears_of_its_pods() {
    let cluster = Cluster::start().await;
    cluster.namespace("a").await;
    let jobs = "/apis/batch/v1/namespaces/a/jobs";
    let warning = "299 - \"child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to \
                   remove them or set propagationPolicy=Orphan to suppress this warning\"";
    assert_eq!(cluster.delete(&format!("{jobs}/none")).await.headers["warning"], warning);
    assert_eq!(cluster.delete(jobs).await.headers["warning"], warning);
    assert!(!cluster.delete(&format!("{jobs}?propagationPolicy=Orphan")).await.headers.contains_key("warning"));
}
