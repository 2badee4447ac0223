//! What bad input gets, and that the server stays up.

use serde_json::json;

use crate::harness::Cluster;

#[tokio::test]
async fn broken_requests_are_refused_in_kubernetes_words() {
    let cluster = Cluster::start().await;
    let maps = cluster.namespace("a").await;
    let post = async |headers: &[(&str, &str)], body: &str| cluster.send("POST", &maps, headers, body).await;

    for (body, part) in [
        ("{nope", "json parse error: invalid character 'n' looking for beginning of object key string"),
        ("{\"metadata\":{\"name\":\"x\"}} x", "invalid character 'x' after top-level value"),
        ("{\"kind\":\"Secret\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"x\"}}", "unknown conversion"),
        ("{\"kind\":\"Frob\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"x\"}}", "no kind \"Frob\" is registered"),
        ("{\"metadata\":{\"name\":5}}", "cannot be handled as a ConfigMap"),
    ] {
        let refused = post(&[], body).await;
        assert_eq!((refused.status, refused.reason().as_str()), (400, "BadRequest"), "{body}: {}", refused.text);
        assert!(refused.message().contains(part), "{body}: {}", refused.text);
    }
    let deep = format!("{{\"metadata\":{{\"name\":\"x\"}},\"x\":{}{}}}", "[".repeat(20_000), "]".repeat(20_000));
    assert!(post(&[], &deep).await.message().contains("exceeded max depth"));
    let strict = cluster
        .send("POST", &format!("{maps}?fieldValidation=Strict"), &[], "{\"metadata\":{\"name\":\"x\"},\"y\":1}")
        .await;
    assert!(strict.message().contains("strict decoding error: unknown field \"y\""), "{}", strict.text);
    let warned = post(&[], "{\"metadata\":{\"name\":\"warned\"},\"y\":1}").await;
    assert_eq!(warned.headers["warning"], "299 - \"unknown field \\\"y\\\"\"");

    let named = post(&[], "{\"metadata\":{\"name\":\"Bad_Name\"}}").await;
    assert_eq!((named.status, named.reason().as_str()), (422, "Invalid"));
    assert_eq!(post(&[("content-type", "text/plain")], "{}").await.status, 415);
    assert_eq!(post(&[("accept", "text/plain")], "{}").await.status, 406);
    let yaml = post(&[("content-type", "application/yaml")], "metadata:\n  name: from-yaml\n").await;
    assert_eq!(yaml.status, 201, "{}", yaml.text);

    let large = json!({"metadata": {"name": "x"}, "data": {"k": "x".repeat(4 << 20)}}).to_string();
    let refused = post(&[], &large).await;
    assert_eq!((refused.status, refused.reason().as_str()), (413, "RequestEntityTooLarge"));

    for (method, path, status) in [
        ("GET", "/api/v1/namespaces/a/things", 404),
        ("GET", "/apis/nope.example.com/v1/things", 404),
        ("GET", "/nope", 404),
        ("POST", "/api/v1/namespaces/a/configmaps/x", 405),
        ("PATCH", "/api/v1/namespaces/a/configmaps", 405),
        ("FROB", "/api/v1/namespaces/a/configmaps", 405),
        ("GET", "/api/v1/namespaces/a/nodes", 404),
    ] {
        let refused = cluster.send(method, path, &[("content-type", "application/merge-patch+json")], "").await;
        assert_eq!(refused.status, status, "{method} {path}: {}", refused.text);
    }
    assert_eq!(cluster.get(&maps).await.status, 200);
}

/// What is unknown is told as it stands in the text, as upstream's decoder comes by it.
#[tokio::test]
async fn complaints_follow_the_text() {
    let cluster = Cluster::start().await;
    let maps = cluster.namespace("a").await;
    let text = r#"{"z":1,"metadata":{"y":1,"name":"x","b":{"n":1,"n":2}},"data":{"k":"1","k":"2"},"a":1}"#;
    let strict = cluster.send("POST", &format!("{maps}?fieldValidation=Strict"), &[], text).await;
    let told = "strict decoding error: unknown field \"z\", unknown field \"metadata.y\", unknown field \"metadata.b\", \
                duplicate field \"data.k\", unknown field \"a\"";
    assert!(strict.message().ends_with(told), "{}", strict.text);

    cluster.post(&maps, &json!({"metadata": {"name": "x"}})).await;
    let patch = r#"{"z":1,"metadata":{"y":1,"b":1},"a":1}"#;
    let merge = [("content-type", "application/merge-patch+json")];
    let strict = cluster.send("PATCH", &format!("{maps}/x?fieldValidation=Strict"), &merge, patch).await;
    // A patched object is written with sorted keys wherever the patch went.
    let told = "strict decoding error: unknown field \"a\", unknown field \"metadata.b\", unknown field \"metadata.y\", \
                unknown field \"z\"";
    assert!(strict.message().ends_with(told), "{}", strict.text);
}

/// Nothing is cut off in silence: what nests too deep to be kept is refused, unless it is in a field that is dropped.
#[tokio::test]
async fn what_nests_too_deep_to_be_kept_is_refused() {
    let cluster = Cluster::start().await;
    let maps = cluster.namespace("a").await;
    let nested = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    let dropped = format!("{{\"metadata\":{{\"name\":\"x\"}},\"y\":{}}}", nested(5000));
    assert_eq!(cluster.send("POST", &maps, &[], &dropped).await.status, 201);

    let revisions = "/apis/apps/v1/namespaces/a/controllerrevisions";
    let revision = |name: &str, depth: usize| {
        format!("{{\"metadata\":{{\"name\":\"{name}\"}},\"revision\":1,\"data\":{}}}", nested(depth))
    };
    assert_eq!(cluster.send("POST", revisions, &[], &revision("kept", 900)).await.status, 201);
    let refused = cluster.send("POST", revisions, &[], &revision("deep", 5000)).await;
    assert_eq!((refused.status, refused.reason().as_str()), (400, "BadRequest"), "{}", refused.text);
    assert!(refused.message().contains("exceeded max depth"), "{}", refused.text);

    // Nor can operations build what a body can't.
    let add = |n: usize| {
        let path = format!("/data{}", "/a".repeat(800 * n + 1));
        format!("{{\"op\":\"add\",\"path\":\"{path}\",\"value\":{}}}", nested(800))
    };
    let patch = format!("[{},{},{},{}]", add(0), add(1), add(2), add(3));
    let form = [("content-type", "application/json-patch+json")];
    let refused = cluster.send("PATCH", &format!("{revisions}/kept"), &form, &patch).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
    assert_eq!(cluster.get("/livez/ping").await.status, 200);
}

#[tokio::test]
async fn who_is_not_known_or_not_allowed_is_told_so() {
    let cluster = Cluster::start().await;
    let unknown = cluster.send("GET", "/api/v1/pods", &[("authorization", "Bearer nope")], "").await;
    assert_eq!((unknown.status, unknown.reason().as_str()), (401, "Unauthorized"));
    let anonymous = cluster.send("GET", "/api/v1/pods", &[("authorization", "")], "").await;
    assert_eq!((anonymous.status, anonymous.reason().as_str()), (403, "Forbidden"));
    assert!(anonymous.message().contains("User \"system:anonymous\" cannot list resource \"pods\""));
    let impersonated = cluster.send("GET", "/api/v1/pods", &[("impersonate-user", "bob")], "").await;
    assert!(impersonated.message().contains("User \"bob\" cannot list resource \"pods\""), "{}", impersonated.text);
}
