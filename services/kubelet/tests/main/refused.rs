//! Pods that ask to be confined in ways that this runtime can't do: they do not run less confined instead.

use crate::node::{Node, until};
use serde_json::{Value, json};
use trireme_kubelet::cri::Cri;

#[tokio::test]
async fn what_can_not_be_confined_as_it_asks_does_not_run() {
    let mut node = Node::start().await;
    let cri = Cri::connect(&node.endpoint()).await.unwrap();
    let put = |node: &Node, name: &str, more: Value| {
        let mut spec = json!({
            "containers": [{"name": "c", "image": "trireme.local/echo:1", "args": ["sleep", "3600"]}],
            "terminationGracePeriodSeconds": 2,
        });
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        node.put(name, &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}));
    };
    put(&node, "users", json!({"hostUsers": false}));
    put(&node, "sysctl", json!({"securityContext": {"sysctls": [{"name": "net.ipv4.ip_forward", "value": "1"}]}}));
    put(&node, "groups", json!({"securityContext": {"supplementalGroupsPolicy": "Strict"}}));
    let mount = json!({"name": "v", "mountPath": "/v", "readOnly": true, "recursiveReadOnly": "Enabled"});
    let container =
        json!({"name": "c", "image": "trireme.local/echo:1", "args": ["sleep", "3600"], "volumeMounts": [mount]});
    put(&node, "ground", json!({"containers": [container], "volumes": [{"name": "v", "emptyDir": {}}]}));
    put(&node, "safe", json!({"securityContext": {"sysctls": [{"name": "net/ipv4/tcp_syncookies", "value": "1"}]}}));
    node.start_kubelet();

    for words in [
        "Failed to create pod sandbox: can't set `spec.hostUsers: false`, runtime does not support user namespaces",
        "forbidden sysctl: \\\"net.ipv4.ip_forward\\\" not allowlisted",
        "SupplementalGroupsPolicy=Strict is not supported in this node",
        "requested recursive read-only mode, but it is not supported by the runtime",
    ] {
        let plain = words.replace('\\', "");
        until(&format!("the kubelet says {words}"), 40, || async {
            let log = std::fs::read_to_string(node.path("kubelet.log")).unwrap_or_default();
            (log.contains(words) || log.contains(&plain)).then_some(())
        })
        .await;
    }
    until("the other Pod runs", 40, || async {
        let all = cri.list_containers(None).await.unwrap();
        all.iter()
            .any(|run| run.labels.get("io.kubernetes.pod.name").is_some_and(|pod| pod == "safe-node"))
            .then_some(())
    })
    .await;
    let sandboxes = cri.list_pod_sandboxes(None).await.unwrap();
    let mut names: Vec<&str> = sandboxes.iter().filter_map(|one| Some(one.metadata.as_ref()?.name.as_str())).collect();
    names.sort_unstable();
    assert_eq!(names, ["ground-node", "safe-node"]);
    assert_eq!(cri.list_containers(None).await.unwrap().len(), 1, "that of the one that asks for what there is");
}
