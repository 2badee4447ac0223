//! What goes wrong on nodes, and what becomes of it.

use std::time::Duration;

use anyhow::{Context as _, bail};
use nix::sys::signal::Signal;
use serde_json::Value;
use trireme_testkit::{Cluster, Options, poll};

use crate::{
    containers,
    support::{LONG, WEB, condition, items, ready_pods},
};

#[test]
fn a_killed_container_is_restarted_and_counted_and_a_deleted_pod_replaced() -> anyhow::Result<()> {
    let cluster = Cluster::up(Options::default())?;
    cluster.apply(WEB)?;
    let pods = ready_pods(&cluster, "app=web", 2)?;
    let name = pods[0]["metadata"]["name"].as_str().context("name")?;
    for restart in 1..=2 {
        let pod = cluster.kubectl(&format!("get pod {name} -o json"))?.json()?;
        containers::kill_process(&cluster, 1, &containers::id(&pod)?)?;
        poll::until("restarted and ready", LONG, || {
            let pod = cluster.kubectl(&format!("get pod {name} -o json"))?.json()?;
            let status = &pod["status"]["containerStatuses"][0];
            if status["restartCount"] != restart || status["ready"] != true {
                bail!("{status}");
            }
            if status["lastState"]["terminated"]["exitCode"] != 137 {
                bail!("last state: {}", status["lastState"]);
            }
            Ok(())
        })?;
    }
    cluster.kubectl(&format!("delete pod {name}"))?.ok()?;
    let now = ready_pods(&cluster, "app=web", 2)?;
    assert!(now.iter().all(|p| p["metadata"]["name"] != name), "{name} is still there");
    Ok(())
}

#[test]
fn a_silent_node_loses_its_pods_and_comes_back() -> anyhow::Result<()> {
    let cluster = Cluster::up(Options::new(
        "--nodes 2 --set controllers.node-monitor-grace-period=8s --set kubelet.node-lease-duration-seconds=8",
    ))?;
    let manifest = WEB.replacen(
        "    spec:\n      containers:",
        "    spec:\n      tolerations:\n        - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 5}\n        - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 5}\n      containers:",
        1,
    );
    cluster.apply(&manifest)?;
    let pods = ready_pods(&cluster, "app=web", 2)?;
    let node = pods[0]["spec"]["nodeName"].as_str().context("nodeName")?.to_owned();
    let number = node.trim_start_matches("node-");
    let evicted: Vec<&Value> = pods.iter().filter(|p| p["spec"]["nodeName"] == node.as_str()).collect();
    cluster.signal(&format!("kubelet-{number}"), Signal::SIGKILL)?;

    poll::until("NotReady with taints", LONG, || {
        let node = cluster.kubectl(&format!("get node {node} -o json"))?.json()?;
        if condition(&node, "Ready") != "Unknown" {
            bail!("Ready is {}", condition(&node, "Ready"));
        }
        let taints: Vec<String> = node["spec"]["taints"]
            .as_array()
            .map(|all| all.iter().map(|t| format!("{}:{}", text(&t["key"]), text(&t["effect"]))).collect())
            .unwrap_or_default();
        for effect in ["NoSchedule", "NoExecute"] {
            if !taints.contains(&format!("node.kubernetes.io/unreachable:{effect}")) {
                bail!("taints: {taints:?}");
            }
        }
        Ok(())
    })?;
    poll::until("both replicas on the other node", LONG, || {
        let pods = items(&cluster, "get pods -l app=web -o json")?;
        let ready =
            pods.iter().filter(|p| p["spec"]["nodeName"] != node.as_str() && condition(p, "Ready") == "True").count();
        if ready != 2 {
            bail!("{ready} are ready there");
        }
        Ok(())
    })?;
    cluster.start()?;
    poll::until("the node is Ready and stopped what was evicted", LONG, || {
        let object = cluster.kubectl(&format!("get node {node} -o json"))?.json()?;
        if condition(&object, "Ready") != "True" || object["spec"]["taints"].is_array() {
            bail!("Ready is {}, taints {}", condition(&object, "Ready"), object["spec"]["taints"]);
        }
        for pod in &evicted {
            if containers::runs(&cluster, number.parse()?, &containers::id(pod)?)? {
                bail!("{} still runs", text(&pod["metadata"]["name"]));
            }
        }
        let pods = items(&cluster, "get pods -l app=web -o json")?;
        if pods.len() != 2 {
            bail!("{} Pods", pods.len());
        }
        Ok(())
    })
}

/// The whole control plane away for a minute: Services answer, and the kubelet restarts a container by itself.
#[test]
fn a_node_goes_on_without_its_control_plane() -> anyhow::Result<()> {
    let cluster = Cluster::up(Options::default())?;
    cluster.apply(WEB)?;
    let pods = ready_pods(&cluster, "app=web", 2)?;
    let service = cluster.kubectl("get service web -o json")?.json()?;
    let address = text(&service["spec"]["clusterIP"]).to_owned();
    for process in ["controllers", "scheduler", "apiserver", "store-1", "nats"] {
        cluster.kill(process)?;
    }
    let down = std::time::Instant::now();
    let id = containers::id(&pods[0])?;
    let before = containers::ctr(&cluster, 1, &["tasks", "ls", "-q"])?.lines().count();
    containers::kill_process(&cluster, 1, &id)?;
    poll::until("the container runs anew", LONG, || {
        let now = containers::ctr(&cluster, 1, &["tasks", "ls"])?;
        let running = now.lines().filter(|l| l.contains("RUNNING")).count();
        if containers::runs(&cluster, 1, &id)? || running != before {
            bail!("{running} of {before} run");
        }
        Ok(())
    })?;
    let minute = Duration::from_secs(60);
    poll::until("a minute of answers", minute * 2, || {
        let answer = crate::support::http_get(&address, 80, "/")
            .or_else(|_| crate::support::http_get(&address, 80, "/"))
            .expect("the Service answers without a control plane");
        assert!(answer.starts_with("pod: web-"), "{answer}");
        if down.elapsed() < minute {
            bail!("not yet");
        }
        Ok(())
    })?;
    cluster.start()?;
    ready_pods(&cluster, "app=web", 2).map(|_| ())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
