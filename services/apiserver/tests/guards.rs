//! What a caller may not do by a detour.

use serde_json::{Value, json};
use trireme_pki::{AuthorityName, Identity, Pki};
use trireme_proto::resources::v1::Request;

use crate::harness::{Answer, Cluster, PATIENCE};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/a/leases/l";

/// Asks until the answer is as wanted: what a request is judged by reaches the judges a moment later.
async fn until(what: &str, mut ask: impl AsyncFnMut() -> Answer, wanted: impl Fn(&Answer) -> bool) -> Answer {
    let begun = std::time::Instant::now();
    loop {
        let answer = ask().await;
        if wanted(&answer) {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}: {} {}", answer.status, answer.text);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// Lets alice do these to Leases.
async fn allow(cluster: &Cluster, verbs: &Value) {
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/a";
    let rule = json!({"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs});
    cluster.delete(&format!("{rbac}/roles/r")).await;
    let role = json!({"metadata": {"name": "r"}, "rules": [rule]});
    assert_eq!(cluster.post(&format!("{rbac}/roles"), &role).await.status, 201);
    let binding = json!({
        "metadata": {"name": "r"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}],
    });
    cluster.post(&format!("{rbac}/rolebindings"), &binding).await;
}

#[tokio::test]
async fn an_update_that_creates_takes_the_right_to_create() {
    let cluster = Cluster::start().await;
    cluster.namespace("a").await;
    allow(&cluster, &json!(["update", "patch"])).await;
    let alice = [("impersonate-user", "alice")];
    let lease = json!({"metadata": {"name": "l", "namespace": "a"}, "spec": {"holderIdentity": "me"}}).to_string();
    let cannot_update = |answer: &Answer| answer.status == 403 && answer.message().contains("cannot update");
    let put = async || cluster.send("PUT", LEASE, &alice, &lease).await;
    let refused = until("may update", put, |answer| !cannot_update(answer)).await;
    assert_eq!((refused.status, refused.reason().as_str()), (403, "Forbidden"), "{}", refused.text);
    let why = "leases.coordination.k8s.io \"l\" is forbidden: User \"alice\" cannot create resource \"leases\" in API group \
               \"coordination.k8s.io\" in the namespace \"a\"";
    assert_eq!(refused.message(), why);
    assert_eq!(cluster.get(LEASE).await.status, 404);

    allow(&cluster, &json!(["update", "create"])).await;
    until("may create", put, |answer| answer.status == 201).await;
    // A change of what is there needs no more than it did.
    allow(&cluster, &json!(["patch"])).await;
    let headers = [alice[0], ("content-type", "application/merge-patch+json")];
    let patch = json!({"spec": {"holderIdentity": "you"}}).to_string();
    let changed = async || cluster.send("PATCH", LEASE, &headers, &patch).await;
    until("may patch", changed, |answer| answer.status != 403).await;
    assert_eq!(cluster.get(LEASE).await.json()["spec"]["holderIdentity"], "you");
}

#[tokio::test]
async fn a_patch_makes_nothing() {
    let cluster = Cluster::start().await;
    cluster.namespace("a").await;
    let patch = json!({"spec": {"holderIdentity": "me"}});
    let missing = cluster.merge(LEASE, &patch).await;
    assert_eq!((missing.status, missing.reason().as_str()), (404, "NotFound"), "{}", missing.text);
    assert_eq!(missing.message(), "leases.coordination.k8s.io \"l\" not found");
}

/// A running Pod.
async fn pod(cluster: &Cluster, ip: &str) -> Value {
    let account = json!({"metadata": {"name": "default"}});
    cluster.post("/api/v1/namespaces/a/serviceaccounts", &account).await;
    let spec = json!({"nodeName": "n", "containers": [{"name": "c", "image": "i"}]});
    let made = json!({"metadata": {"name": "p", "labels": {"app": "p"}}, "spec": spec});
    let made = cluster.post("/api/v1/namespaces/a/pods", &made).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let status = json!({"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": ready});
    let running = cluster.merge("/api/v1/namespaces/a/pods/p/status", &json!({"status": status})).await;
    assert_eq!(running.status, 200, "{}", running.text);
    running.json()
}

#[tokio::test]
async fn the_proxy_leads_neither_to_the_server_nor_to_its_link() {
    let cluster = Cluster::start().await;
    cluster.namespace("a").await;
    // What must not be reached: here it is the server itself.
    let port = cluster.https;
    let not_allowed = |answer: &Answer| {
        assert_eq!((answer.status, answer.message().as_str()), (400, "address not allowed"), "{}", answer.text);
    };
    pod(&cluster, "127.0.0.1").await;
    not_allowed(&cluster.get(&format!("/api/v1/namespaces/a/pods/https:p:{port}/proxy/version")).await);

    let addresses = json!([{"type": "InternalIP", "address": "127.0.0.1"}]);
    let endpoints = json!({"kubeletEndpoint": {"Port": port}});
    let status = json!({"addresses": addresses, "daemonEndpoints": endpoints});
    let node = cluster.post("/api/v1/nodes", &json!({"metadata": {"name": "n"}, "status": status})).await;
    assert_eq!(node.status, 201, "{}", node.text);
    for node in ["n".to_owned(), format!("n:{port}"), format!("https:n:{port}")] {
        not_allowed(&cluster.get(&format!("/api/v1/nodes/{node}/proxy/version")).await);
    }

    // A slice alone makes no Pod of an address.
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    assert_eq!(cluster.post("/api/v1/namespaces/a/services", &service).await.status, 201);
    let labels = json!({"kubernetes.io/service-name": "s"});
    let slice = json!({
        "metadata": {"name": "s", "labels": labels},
        "addressType": "IPv4",
        "ports": [{"name": "", "port": port}],
        "endpoints": [{"addresses": ["192.0.2.7"]}],
    });
    let made = cluster.post("/apis/discovery.k8s.io/v1/namespaces/a/endpointslices", &slice).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let none = cluster.get("/api/v1/namespaces/a/services/s/proxy/").await;
    assert_eq!((none.status, none.message().as_str()), (503, "no endpoints available for service \"s\""));
}

#[tokio::test]
async fn an_eviction_of_another_pod_costs_no_budget() {
    let cluster = Cluster::start().await;
    cluster.namespace("a").await;
    let pod = pod(&cluster, "192.0.2.7").await;
    let budgets = "/apis/policy/v1/namespaces/a/poddisruptionbudgets";
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "p"}}});
    let budget = json!({"metadata": {"name": "b"}, "spec": spec});
    assert_eq!(cluster.post(budgets, &budget).await.status, 201);
    let status = json!({
        "observedGeneration": 1,
        "disruptionsAllowed": 5,
        "currentHealthy": 6,
        "desiredHealthy": 1,
        "expectedPods": 6,
    });
    let allowed = cluster.merge(&format!("{budgets}/b/status"), &json!({"status": status})).await;
    assert_eq!(allowed.status, 200, "{}", allowed.text);
    let evict = async |preconditions: Value| {
        let eviction = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": "p"},
            "deleteOptions": {"preconditions": preconditions},
        });
        cluster.post("/api/v1/namespaces/a/pods/p/eviction", &eviction).await
    };
    let left = async || cluster.get(&format!("{budgets}/b")).await.json()["status"]["disruptionsAllowed"].clone();
    for preconditions in [json!({"uid": "other"}), json!({"resourceVersion": "1"})] {
        let refused = evict(preconditions).await;
        assert_eq!((refused.status, refused.reason().as_str()), (409, "Conflict"), "{}", refused.text);
        assert!(refused.message().contains("in the precondition"), "{}", refused.text);
    }
    assert_eq!(left().await, 5);
    let evicted = evict(json!({"uid": pod["metadata"]["uid"]})).await;
    assert_eq!(evicted.status, 201, "{}", evicted.text);
    assert_eq!(left().await, 4);
}

#[tokio::test]
async fn without_privileged_containers_there_are_none() {
    let cluster = Cluster::start_with(&["--allow-privileged=false"]).await;
    cluster.namespace("a").await;
    cluster.post("/api/v1/namespaces/a/serviceaccounts", &json!({"metadata": {"name": "default"}})).await;
    let spec = |privileged: bool| {
        let container = json!({"name": "c", "image": "i", "securityContext": {"privileged": privileged}});
        json!({"containers": [container]})
    };
    let pod = |privileged: bool| json!({"metadata": {"name": "p"}, "spec": spec(privileged)});
    let refused = cluster.post("/api/v1/namespaces/a/pods", &pod(true)).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
    let why =
        "Pod \"p\" is invalid: spec.containers[0].securityContext.privileged: Forbidden: disallowed by cluster policy";
    assert_eq!(refused.message(), why);
    assert_eq!(cluster.post("/api/v1/namespaces/a/pods", &pod(false)).await.status, 201);
    let template = json!({"metadata": {"labels": {"app": "d"}}, "spec": spec(true)});
    let deployment = json!({
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": template},
    });
    let refused = cluster.post("/apis/apps/v1/namespaces/a/deployments", &deployment).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
    assert!(refused.message().contains("spec.template.spec.containers[0].securityContext.privileged"));
}

#[tokio::test]
async fn a_front_proxy_names_the_user_in_the_headers_that_flags_name() {
    let mut cluster = Cluster::new();
    let pki = Pki::open(&cluster.pki("")).unwrap();
    pki.issue(&Identity::front_proxy_client()).unwrap();
    let authority = pki.authority_file(AuthorityName::FrontProxy);
    cluster.start_store();
    cluster.start_api(&[
        &format!("--requestheader-client-ca-file={}", authority.display()),
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=Remote-User",
    ]);
    cluster.ready().await;
    let mut door = cluster.door("front-proxy-client").await;
    let message = Request {
        verb: "get".to_owned(),
        version: "v1".to_owned(),
        resource: "nodes".to_owned(),
        name: "n".to_owned(),
        ..Request::default()
    };
    let mut call = tonic::Request::new(message);
    call.metadata_mut().insert("remote-user", "carol".parse().unwrap());
    let refused = door.r#do(call).await.unwrap_err();
    assert!(refused.message().contains("User \"carol\" cannot get resource \"nodes\""), "{refused:?}");
}
