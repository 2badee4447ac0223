//! What is refused, and that nothing is lost or changed by it. The words are those of the real kube-apiserver, asked.

use serde_json::{Value, json};

use crate::harness::Cluster;

const MERGE: [(&str, &str); 1] = [("content-type", "application/merge-patch+json")];

#[tokio::test]
async fn what_is_no_delete_options_deletes_nothing() {
    let cluster = Cluster::start().await;
    let maps = cluster.namespace("a").await;
    let labels = json!({"k": "v"});
    cluster.post(&maps, &json!({"metadata": {"name": "x", "labels": labels}})).await;
    let field = |found: &str, field: &str, ty: &str| {
        format!("json: cannot unmarshal {found} into Go struct field {field} of type {ty}")
    };
    let unknown = |kind: &str, version: &str| {
        format!("no kind \"{kind}\" is registered for version \"{version}\" in scheme \"pkg/runtime/scheme.go:111\"")
    };
    for (body, told) in [
        ("[]", "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value".to_owned()),
        ("5", "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go value".to_owned()),
        ("x", "couldn't get version/kind; json parse error: invalid character 'x' looking for beginning".to_owned()),
        (r#"{"kind":"Pod"}"#, unknown("Pod", "meta.k8s.io/v1")),
        (r#"{"apiVersion":"policy/v1","kind":"Eviction"}"#, unknown("Eviction", "policy/v1")),
        (r#"{"gracePeriodSeconds":"x"}"#, field("string", "DeleteOptions.gracePeriodSeconds", "int64")),
        (r#"{"dryRun":"All"}"#, field("string", "DeleteOptions.dryRun", "[]string")),
        (r#"{"dryRun":true}"#, field("bool", "DeleteOptions.dryRun", "[]string")),
        (r#"{"preconditions":"x"}"#, field("string", "DeleteOptions.preconditions", "v1.Preconditions")),
        (r#"{"preconditions":{"uid":5}}"#, field("number", "Preconditions.preconditions.uid", "types.UID")),
        (r#"{"propagationPolicy":5}"#, field("number", "DeleteOptions.propagationPolicy", "v1.DeletionPropagation")),
    ] {
        for path in [format!("{maps}/x"), format!("{maps}?labelSelector=k%3Dv")] {
            let refused = cluster.send("DELETE", &path, &[], body).await;
            assert_eq!((refused.status, refused.reason().as_str()), (400, "BadRequest"), "{body}: {}", refused.text);
            assert!(refused.message().starts_with(&told), "{body}: {}", refused.text);
            assert_eq!(cluster.get(&format!("{maps}/x")).await.status, 200, "{body}");
        }
    }
    let several = cluster.send("DELETE", &format!("{maps}/x"), &[], r#"{"dryRun":["All","y"]}"#).await;
    assert_eq!(several.status, 422, "{}", several.text);
    assert!(several.message().ends_with("dryRun: Unsupported value: [\"All\",\"y\"]: supported values: \"All\""));
    // What names another version is still one.
    let body = r#"{"apiVersion":"v9","kind":"DeleteOptions"}"#;
    assert_eq!(cluster.send("DELETE", &format!("{maps}/x"), &[], body).await.status, 200);
    assert_eq!(cluster.get(&format!("{maps}/x")).await.status, 404);
}

#[tokio::test]
async fn a_scale_is_of_the_object_that_it_names() {
    let cluster = Cluster::start().await;
    cluster.namespace("a").await;
    let deployments = "/apis/apps/v1/namespaces/a/deployments";
    let template = json!({
        "metadata": {"labels": {"q": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let spec = json!({"replicas": 3, "selector": {"matchLabels": {"q": "b"}}, "template": template});
    let made = cluster.post(deployments, &json!({"metadata": {"name": "d"}, "spec": spec})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let scale = format!("{deployments}/d/scale");
    let undeterminable = "the name of the object (d based on URL) was undeterminable: name must be provided";
    let other = "the name of the object (e) does not match the name on the URL (d)";
    let elsewhere = "the namespace of the provided object does not match the namespace sent on the request";
    for (body, told) in [
        (json!({}), undeterminable),
        (Value::Null, undeterminable),
        (json!({"metadata": {"name": "e"}, "spec": {"replicas": 1}}), other),
        (json!({"metadata": {"name": "d", "namespace": "b"}, "spec": {"replicas": 1}}), elsewhere),
    ] {
        let refused = cluster.put(&scale, &body).await;
        assert_eq!((refused.status, refused.message().as_str()), (400, told), "{body}: {}", refused.text);
    }
    let refused = cluster.merge(&scale, &json!({"metadata": {"name": "e"}, "spec": {"replicas": 1}})).await;
    assert_eq!((refused.status, refused.message().as_str()), (400, other), "{}", refused.text);
    assert_eq!(cluster.get(&format!("{deployments}/d")).await.json()["spec"]["replicas"], 3);
    let put = cluster.put(&scale, &json!({"metadata": {"name": "d"}, "spec": {"replicas": 2}})).await;
    assert_eq!((put.status, put.json()["spec"]["replicas"].as_i64()), (200, Some(2)), "{}", put.text);
}

#[tokio::test]
async fn a_body_is_not_read_for_nobody_nor_for_ever() {
    let cluster = Cluster::start_with(&["--request-timeout=2s"]).await;
    let maps = cluster.namespace("a").await;
    for chunked in [false, true] {
        let anonymous = cluster.unfinished(false, &maps, chunked).await;
        assert!(anonymous.starts_with("HTTP/1.1 403 "), "{anonymous}");
        let late = cluster.unfinished(true, &maps, chunked).await;
        assert!(late.starts_with("HTTP/1.1 504 "), "{late}");
        assert!(late.contains("Timeout: request did not complete within the allotted timeout"), "{late}");
    }
}

#[tokio::test]
async fn openapi_comes_compressed_and_plain_alike() {
    let cluster = Cluster::start().await;
    for path in ["/openapi/v2", "/openapi/v3/apis/apps/v1"] {
        let plain = cluster.get(path).await;
        assert_eq!(plain.status, 200, "{}", plain.text);
        assert!(plain.json()["paths"].is_object());
        let compressed = cluster.send("GET", path, &[("accept-encoding", "gzip")], "").await;
        assert_eq!(compressed.headers["content-encoding"], "gzip");
        assert_eq!(compressed.headers["etag"], plain.headers["etag"]);
        let etag = plain.headers["etag"].to_str().unwrap();
        assert_eq!(cluster.send("GET", path, &[("if-none-match", etag)], "").await.status, 304);
    }
}

#[tokio::test]
async fn a_binding_names_a_node_that_can_be() {
    let cluster = Cluster::start().await;
    cluster.namespace("a").await;
    let body = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "A_B"}});
    let refused = cluster.post("/api/v1/namespaces/a/pods/p/binding", &body).await;
    assert_eq!(refused.status, 500, "{}", refused.text);
    let told = "target.name: Invalid value: \"A_B\": a lowercase RFC 1123 subdomain must consist of";
    assert!(refused.message().starts_with(told), "{}", refused.text);
}

#[tokio::test]
async fn a_namespace_keeps_no_finalizer_that_cannot_be() {
    let cluster = Cluster::start().await;
    cluster.namespace("a").await;
    let body = json!({"metadata": {"name": "a"}, "spec": {"finalizers": ["bad fin"]}});
    let refused = cluster.put("/api/v1/namespaces/a/finalize", &body).await;
    assert_eq!((refused.status, refused.reason().as_str()), (422, "Invalid"), "{}", refused.text);
    let told = "spec.finalizers[0]: Invalid value: \"bad fin\": name part must consist of";
    assert!(refused.message().contains(told), "{}", refused.text);
    let kept = cluster.get("/api/v1/namespaces/a").await.json();
    assert_eq!(kept["spec"]["finalizers"], json!(["kubernetes"]));
}

#[tokio::test]
async fn what_is_no_patch_is_refused() {
    let cluster = Cluster::start().await;
    let maps = cluster.namespace("a").await;
    cluster.post(&maps, &json!({"metadata": {"name": "x"}})).await;
    let path = format!("{maps}/x");
    for form in ["json-patch", "merge-patch", "strategic-merge-patch"] {
        let form = format!("application/{form}+json");
        for body in ["", "garbage", "{"] {
            let refused = cluster.send("PATCH", &path, &[("content-type", &form)], body).await;
            assert_eq!((refused.status, refused.message().as_str()), (400, "invalid JSON patch"), "{form} {body}");
        }
    }
    let refused = cluster.send("PATCH", &path, &[("content-type", "application/json")], "{}").await;
    assert_eq!((refused.status, refused.message().as_str()), (415, "415: Unsupported Media Type"));
}

#[tokio::test]
async fn a_version_is_a_number() {
    let cluster = Cluster::start().await;
    let maps = cluster.namespace("a").await;
    cluster.post(&maps, &json!({"metadata": {"name": "x"}})).await;
    let parse = "strconv.ParseUint: parsing \"abc\": invalid syntax";
    let invalid = format!("resourceVersion: Invalid value: \"abc\": {parse}");
    for path in [format!("{maps}/x?resourceVersion=abc"), format!("{maps}?watch=1&resourceVersion=abc")] {
        let refused = cluster.get(&path).await;
        assert_eq!((refused.status, refused.reason().as_str()), (500, ""), "{path}: {}", refused.text);
        assert_eq!(refused.message(), invalid);
    }
    let list = cluster.get(&format!("{maps}?resourceVersion=abc")).await;
    assert_eq!((list.status, list.message()), (400, format!("invalid resource version: {invalid}")));
    let huge = cluster.get(&format!("{maps}?resourceVersion=99999999999999999999999")).await;
    assert!(huge.message().ends_with(": value out of range"), "{}", huge.text);
    let put = cluster.put(&format!("{maps}/x"), &json!({"metadata": {"name": "x", "resourceVersion": "abc"}})).await;
    assert_eq!((put.status, put.message().as_str()), (500, parse), "{}", put.text);
    let merged = cluster.send("PATCH", &format!("{maps}/x"), &MERGE, r#"{"data":{"k":"v"}}"#).await;
    assert_eq!(merged.status, 200, "{}", merged.text);
}

#[tokio::test]
async fn one_space_stands_before_a_token() {
    let cluster = Cluster::start().await;
    let token = std::fs::read_to_string(cluster.pki("tokens.csv")).unwrap();
    let token = token.split(',').next().unwrap().trim().to_owned();
    let asked = async |authorization: String| {
        cluster.send("GET", "/api/v1/nodes", &[("authorization", &authorization)], "").await.status
    };
    assert_eq!(asked(format!("Bearer {token}")).await, 200);
    assert_eq!(asked(format!("Bearer {token} x")).await, 200);
    assert_eq!(asked(format!("Bearer  {token}")).await, 403);
}

#[tokio::test]
async fn a_strategic_patch_that_does_not_fit_is_refused() {
    let cluster = Cluster::start().await;
    let maps = cluster.namespace("a").await;
    cluster.post(&maps, &json!({"metadata": {"name": "x"}, "data": {"k": "v"}})).await;
    for (patch, shown, why) in [
        (json!({"data": 5}), "map[data:5]", "cannot restore map from int64"),
        (json!({"data": [1]}), "map[data:[1]]", "cannot restore map from slice"),
        (json!({"data": {"a": {"b": 1}}}), "map[data:map[a:map[b:1]]]", "unrecognized type: string"),
        (json!({"metadata": "x"}), "map[metadata:x]", "cannot restore struct from: string"),
        (json!({"metadata": {"labels": 1.5}}), "map[metadata:map[labels:1.5]]", "cannot restore map from float64"),
        (json!({"metadata": {"generation": "x"}}), "map[metadata:map[generation:x]]", "unrecognized type: int64"),
        (json!({"immutable": "x"}), "map[immutable:x]", "unrecognized type: bool"),
        (json!({"data": {"a": 5}}), "map[data:map[a:5]]", "cannot convert int64 to string"),
    ] {
        let form = [("content-type", "application/strategic-merge-patch+json")];
        let refused = cluster.send("PATCH", &format!("{maps}/x"), &form, &patch.to_string()).await;
        assert_eq!(refused.status, 422, "{}", refused.text);
        assert_eq!(refused.message(), format!(" \"\" is invalid: patch: Invalid value: \"{shown}\": {why}"));
    }
}

#[tokio::test]
async fn a_create_says_where_and_has_no_version() {
    let cluster = Cluster::start().await;
    let maps = cluster.namespace("a").await;
    let object = json!({"metadata": {"name": "x", "namespace": "a"}});
    let nowhere = cluster.post("/api/v1/configmaps", &object).await;
    assert_eq!((nowhere.status, nowhere.reason().as_str()), (405, "MethodNotAllowed"), "{}", nowhere.text);
    let versioned = |version: &str| json!({"metadata": {"name": "x", "resourceVersion": version}});
    let dry = cluster.post(&format!("{maps}?dryRun=All"), &versioned("123")).await;
    assert_eq!((dry.status, dry.version().as_str()), (201, "123"), "{}", dry.text);
    let refused = cluster.post(&maps, &versioned("123")).await;
    assert_eq!(refused.status, 500, "{}", refused.text);
    assert_eq!(refused.message(), "resourceVersion should not be set on objects to be created");
    let made = cluster.post(&maps, &versioned("abc")).await;
    assert_eq!(made.status, 201, "{}", made.text);
    assert!(made.version().parse::<u64>().is_ok(), "{}", made.text);
}

#[tokio::test]
async fn what_is_not_there_yet_says_so() {
    let cluster = Cluster::start().await;
    cluster.namespace("a").await;
    let pods = "/api/v1/namespaces/a/pods";
    cluster.post("/api/v1/namespaces/a/serviceaccounts", &json!({"metadata": {"name": "default"}})).await;
    for (name, node) in [("u", None), ("s", Some("nowhere"))] {
        let spec = json!({"containers": [{"name": "c", "image": "i"}], "nodeName": node});
        let made = cluster.post(pods, &json!({"metadata": {"name": name}, "spec": spec})).await;
        assert_eq!(made.status, 201, "{}", made.text);
    }
    let log = cluster.get(&format!("{pods}/u/log")).await;
    assert_eq!((log.status, log.text.as_str()), (204, ""));
    for (service, code, told) in [
        ("x", 503, "no endpoints available for service \"x\""),
        ("https:x:a", 503, "no endpoints available for service \"x\""),
        ("x:80", 404, "services \"x\" not found"),
    ] {
        let refused = cluster.get(&format!("/api/v1/namespaces/a/services/{service}/proxy/")).await;
        assert_eq!((refused.status, refused.message().as_str()), (code, told), "{}", refused.text);
    }
    let upgrade =
        [("connection", "Upgrade"), ("upgrade", "websocket"), ("sec-websocket-protocol", "v4.channel.k8s.io")];
    let closed = [("connection", "close"), ("upgrade", "websocket")];
    let nowhere = "pod u does not have a host assigned";
    let nothing = "you must specify at least 1 of stdin, stdout, stderr";
    let required = "Upgrade request required";
    for (path, headers, code, told) in [
        ("zz/exec?command=a&stdout=1", &closed[..], 404, "pods \"zz\" not found"),
        ("u/exec?command=a&stdout=1", &closed[..], 400, nowhere),
        ("u/exec?command=a&stdout=1", &upgrade[..], 400, nowhere),
        ("u/portforward?ports=80", &upgrade[..], 400, nowhere),
        ("s/exec?command=a&stdout=1", &closed[..], 400, required),
        ("s/portforward?ports=80", &[], 400, required),
        ("s/exec?command=a", &upgrade[..], 400, nothing),
        ("s/exec?command=a&stdout=false", &upgrade[..], 400, nothing),
        ("s/attach?tty=1&stderr=1", &upgrade[..], 400, nothing),
        ("s/exec?stdout=1", &upgrade[..], 400, "you must specify at least one command for the container"),
    ] {
        let refused = cluster.send("GET", &format!("{pods}/{path}"), headers, "").await;
        assert_eq!((refused.status, refused.message().as_str()), (code, told), "{path} {headers:?}");
    }
    let watch = cluster.send("GET", &format!("{pods}?watch=1"), &upgrade, "").await;
    assert_eq!(watch.status, 403, "{}", watch.text);
    let tunnel = cluster.send("CONNECT", pods, &[], "").await;
    assert_eq!((tunnel.status, tunnel.reason().as_str()), (405, "MethodNotAllowed"), "{}", tunnel.text);
}

#[tokio::test]
async fn a_timeout_is_a_duration_of_gos() {
    let cluster = Cluster::start().await;
    let maps = cluster.namespace("a").await;
    for (text, why) in [("abc", "time: invalid duration \"abc\""), ("5", "time: missing unit in duration \"5\"")] {
        let refused = cluster.get(&format!("{maps}?timeout={text}")).await;
        let told = format!("invalid timeout specified in the request URL - {why}");
        assert_eq!((refused.status, refused.message()), (400, told), "{}", refused.text);
    }
    assert_eq!(cluster.get(&format!("{maps}?timeout=-5s")).await.status, 200);
    // A token of another format.
    let refused = cluster.get(&format!("{maps}?continue=eyJ2IjoidjkiLCJydiI6MSwic3RhcnQiOiJ6enoifQ")).await;
    let told = "invalid continue token: continue key is not valid: server does not recognize this encoded version v9";
    assert_eq!((refused.status, refused.message().as_str()), (400, told), "{}", refused.text);
}
