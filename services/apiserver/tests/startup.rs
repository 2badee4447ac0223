//! The first moments of a server, and servers that should not start.

use std::time::Instant;

use serde_json::json;
use trireme_proto::resources::v1::Request;

use crate::harness::{Cluster, PATIENCE};

#[tokio::test]
async fn who_comes_before_the_roles_are_there_waits() {
    let mut cluster = Cluster::new();
    cluster.start_store();
    cluster.start_api(&[]);
    let begun = Instant::now();
    let mut door = loop {
        match cluster.try_door("scheduler").await {
            Ok(door) => break door,
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}: {}", cluster.log()),
        }
    };
    let pods = Request {
        verb: "list".to_owned(),
        version: "v1".to_owned(),
        resource: "pods".to_owned(),
        ..Request::default()
    };
    // The scheduler's role is made by this very server.
    door.list(pods).await.unwrap();
    // Whoever may not, may not.
    let mut other = cluster.door("user-alice").await;
    let secrets = Request {
        verb: "list".to_owned(),
        version: "v1".to_owned(),
        resource: "secrets".to_owned(),
        ..Request::default()
    };
    assert_eq!(other.list(secrets).await.unwrap_err().code(), tonic::Code::PermissionDenied);
    // And a server that starts on what is there knows it as soon as it answers.
    cluster.ready().await;
    cluster.kill_api();
    cluster.start_api(&[]);
    let begun = Instant::now();
    let answer = loop {
        match cluster.try_send("GET", "/api/v1/namespaces/default", &[], "").await {
            Ok(answer) => break answer,
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}: {}", cluster.log()),
        }
    };
    assert_eq!(answer.status, 200, "{}", answer.text);
}

#[tokio::test]
async fn an_address_that_no_endpoint_can_have_needs_to_be_wanted() {
    let mut cluster = Cluster::new();
    cluster.start_store();
    cluster.start_api(&["--advertise-address=127.0.0.1"]);
    let (in_order, log) = cluster.ended();
    assert!(!in_order && log.contains("may not be in the loopback range"), "{log}");

    cluster.start_api(&["--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none"]);
    cluster.ready().await;
    let begun = Instant::now();
    while cluster.get("/api/v1/namespaces/default/services/kubernetes").await.status != 200 {
        assert!(begun.elapsed() < PATIENCE, "no Service: {}", cluster.log());
    }
    assert_eq!(cluster.get("/api/v1/namespaces/default/endpoints/kubernetes").await.status, 404);
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    assert_eq!(cluster.get(slices).await.json()["items"], json!([]));

    // A server beside it that takes part leaves it out.
    cluster.kill_api();
    cluster.start_api(&[]);
    cluster.ready().await;
    let begun = Instant::now();
    let slice = loop {
        let slice = cluster.get(&format!("{slices}/kubernetes")).await;
        if slice.status == 200 {
            break slice.json();
        }
        assert!(begun.elapsed() < PATIENCE, "no EndpointSlice: {}", cluster.log());
    };
    assert_eq!(slice["endpoints"][0]["addresses"], json!(["192.0.2.1"]));
    assert_eq!(slice["endpoints"].as_array().unwrap().len(), 1);
}
