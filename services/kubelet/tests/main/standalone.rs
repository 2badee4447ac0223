//! Static Pods, from manifest to container and back.

use crate::node::{Node, until};
use nix::sys::signal::Signal;
use serde_json::json;
use std::path::Path;
use trireme_kubelet::cri::Cri;
use trireme_kubelet::cri::state::{ContainerState, PodState, Stage};

/// All that the runtime has of the Pod of this name.
async fn pod(cri: &Cri, name: &str) -> Option<(String, PodState)> {
    let sandboxes = cri.list_pod_sandboxes(None).await.unwrap();
    let sandbox = sandboxes.into_iter().find(|one| one.metadata.as_ref().is_some_and(|meta| meta.name == name))?;
    let uid = sandbox.metadata.unwrap().uid;
    let state = cri.pod_state(&uid).await.unwrap();
    Some((uid, state))
}

async fn running(cri: &Cri, name: &str, container: &str, restarts: u32) -> (String, ContainerState, PodState) {
    until(&format!("{container} of {name} runs (restart {restarts})"), 40, || async {
        let (uid, state) = pod(cri, name).await?;
        let run = state.latest(container).filter(|run| run.stage == Stage::Running)?.clone();
        (run.annotated.restart_count == restarts).then_some((uid, run, state))
    })
    .await
}

fn cgroup(node: &Node, controller: &str, uid: &str, file: &str) -> String {
    let path = Path::new("/sys/fs/cgroup")
        .join(controller)
        .join(&node.id)
        .join("kubepods/burstable")
        .join(format!("pod{uid}"));
    std::fs::read_to_string(path.join(file)).unwrap_or_default().trim().to_owned()
}

/// What is answered to somebody unknown.
fn code(url: &str) -> String {
    let curl = std::process::Command::new("curl").args(["-sk", "-o", "/dev/null", "-w", "%{http_code}", url]).output();
    String::from_utf8_lossy(&curl.unwrap().stdout).into_owned()
}

async fn log(run: &ContainerState, text: &str) {
    until(&format!("the log says {text:?}"), 10, || async {
        std::fs::read_to_string(&run.log_path).ok().filter(|log| log.contains(text))
    })
    .await;
}

#[tokio::test]
async fn a_static_pod_from_manifest_to_container_and_back() {
    let mut node = Node::start().await;
    let cri = Cri::connect(&node.endpoint()).await.unwrap();
    node.put(
        "web",
        &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": {"app": "web"}}, "spec": {
            "initContainers": [{"name": "first", "image": "trireme.local/echo:1", "args": ["env"], "env": [{"name": "STEP", "value": "init"}]}],
            "containers": [
                {"name": "echo", "image": "trireme.local/echo:1",
                 "env": [{"name": "ME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, {"name": "HELLO", "value": "hi-$(ME)"}],
                 "resources": {"requests": {"cpu": "100m", "memory": "16Mi"}, "limits": {"cpu": "500m", "memory": "64Mi"}},
                 "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8080}, "periodSeconds": 1},
                 "volumeMounts": [{"name": "shared", "mountPath": "/shared"}, {"name": "info", "mountPath": "/info"}]},
                {"name": "reader", "image": "trireme.local/echo:1", "args": ["sleep", "3600"],
                 "volumeMounts": [{"name": "shared", "mountPath": "/shared", "subPath": "deep/inside"}]},
            ],
            "volumes": [{"name": "shared", "emptyDir": {}},
                {"name": "info", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}}],
            "terminationGracePeriodSeconds": 3,
        }}),
    );
    node.healthz_port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).unwrap().port();
    node.start_kubelet();
    let (uid, run, state) = running(&cri, "web-node", "echo", 0).await;
    running(&cri, "web-node", "reader", 0).await;
    assert_eq!(state.latest("first").unwrap().exit_code, 0);
    log(state.latest("first").unwrap(), "STEP=init").await;

    let exec = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let (cri, id) = (cri.clone(), run.id.clone());
        async move {
            let answer = cri.exec_sync(&id, &words, std::time::Duration::from_secs(10)).await.unwrap();
            String::from_utf8_lossy(&answer.stdout).into_owned()
        }
    };
    assert!(exec(&["/echo", "env"]).await.contains("HELLO=hi-web-node"));
    assert_eq!(exec(&["/echo", "cat", "/info/labels"]).await.trim(), "app=\"web\"");
    assert!(exec(&["/echo", "cat", "/etc/hosts"]).await.contains(&format!("{}\tweb-node", state.ips()[0])));
    assert!(exec(&["/echo", "ls", "/shared"]).await.contains("deep"));
    if Path::new("/sys/fs/cgroup/memory").exists() {
        assert_eq!(cgroup(&node, "cpu", &uid, "cpu.shares"), "102", "100m of a core");
        let own = Path::new("/sys/fs/cgroup/memory")
            .join(&node.id)
            .join("kubepods/burstable")
            .join(format!("pod{uid}"))
            .join(&run.id);
        assert_eq!(std::fs::read_to_string(own.join("memory.limit_in_bytes")).unwrap().trim(), (64 << 20).to_string());
    }

    // Nobody is let in without being known, wherever to; on the node itself everybody may ask whether it lives.
    let port = node.port().await;
    for path in ["pods", "healthz", "livez", "metrics", "no/such/page"] {
        assert_eq!(code(&format!("https://127.0.0.1:{port}/{path}")), "401", "/{path}");
    }
    let healthz = format!("http://127.0.0.1:{}/healthz", node.healthz_port);
    until("healthz answers everybody", 10, || async { (code(&healthz) == "200").then_some(()) }).await;

    // A kubelet that dies and comes back takes over what runs.
    node.stop_kubelet(Signal::SIGKILL);
    node.start_kubelet();
    node.port().await;
    let killed = node.ctr(&["tasks", "kill", "-s", "SIGKILL", &run.id]);
    assert!(killed.status.success());
    let (_, again, state) = running(&cri, "web-node", "echo", 1).await;
    assert_ne!(again.id, run.id);
    assert_eq!(state.latest("reader").unwrap().annotated.restart_count, 0, "the other one was left alone");
    assert_eq!(state.sandboxes.len(), 1);

    // Without its manifest nothing of it is left.
    node.remove("web");
    until("the Pod is gone", 30, || async { pod(&cri, "web-node").await.is_none().then_some(()) }).await;
    until("its folders are gone", 10, || async {
        (!node.path("kubelet/pods").join(&uid).exists() && std::fs::read_dir(node.path("logs")).unwrap().count() == 0)
            .then_some(())
    })
    .await;
    until("its cgroup is gone", 10, || async { cgroup(&node, "cpu", &uid, "cpu.shares").is_empty().then_some(()) })
        .await;
}

#[tokio::test]
async fn containers_that_fail_are_restarted_with_pauses() {
    let mut node = Node::start().await;
    let cri = Cri::connect(&node.endpoint()).await.unwrap();
    node.put(
        "crash",
        &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "crash"}, "spec": {
            "containers": [
                {"name": "exits", "image": "trireme.local/echo:1", "env": [{"name": "ECHO_EXIT", "value": "3"}]},
                {"name": "sick", "image": "trireme.local/echo:1", "args": ["sleep", "3600"],
                 "livenessProbe": {"exec": {"command": ["/echo", "cat", "/no/such/file"]}, "periodSeconds": 1, "failureThreshold": 1, "terminationGracePeriodSeconds": 1}},
            ],
        }}),
    );
    node.start_kubelet();
    let second = until("the second run ended", 30, || async {
        let (_, state) = pod(&cri, "crash-node").await?;
        state.latest("exits").filter(|run| run.annotated.restart_count == 1 && run.stage == Stage::Exited).cloned()
    })
    .await;
    assert_eq!(second.exit_code, 3);
    running(&cri, "crash-node", "sick", 1).await;
    let third = until("the third run", 30, || async {
        let (_, state) = pod(&cri, "crash-node").await?;
        state.latest("exits").filter(|run| run.annotated.restart_count == 2).cloned()
    })
    .await;
    let pause = (third.created_at - second.finished_at) as f64 / 1e9;
    assert!((10.0..16.0).contains(&pause), "the pause was {pause} s");
    let log = node.kubelet_log();
    assert!(log.contains("back-off") || log.contains("Back-off restarting failed container exits"), "{log}");
    assert!(log.contains("Container sick failed liveness probe, will be restarted"));
    let (_, state) = pod(&cri, "crash-node").await.unwrap();
    assert!(state.containers.iter().filter(|run| run.name == "exits").count() <= 3, "old runs are removed");
}

#[tokio::test]
async fn what_nobody_wants_any_more_is_stopped_after_a_restart() {
    let mut node = Node::start().await;
    let cri = Cri::connect(&node.endpoint()).await.unwrap();
    let manifest = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lost"}, "spec": {
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "c", "image": "trireme.local/echo:1"}]}});
    node.put("lost", &manifest);
    node.start_kubelet();
    let (uid, _, _) = running(&cri, "lost-node", "c", 0).await;
    node.stop_kubelet(Signal::SIGTERM);
    node.remove("lost");
    node.start_kubelet();
    until("the orphan is gone", 30, || async { pod(&cri, "lost-node").await.is_none().then_some(()) }).await;
    until("its folder is gone", 10, || async { (!node.path("kubelet/pods").join(&uid).exists()).then_some(()) }).await;
}
