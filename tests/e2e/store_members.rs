//! Three and five store members: a minority may die.

use std::time::Duration;

use anyhow::{Context as _, bail};
use trireme_testkit::{Cluster, Options, poll};

use crate::{
    containers,
    history::History,
    support::{LONG, WEB, http_get, ready_pods},
};

#[test]
fn a_dead_leader_is_replaced_within_three_seconds_and_loses_nothing() -> anyhow::Result<()> {
    let cluster = Cluster::up(Options::new("--only store,nats,apiserver --store-members 3"))?;
    let history = History::start(&cluster.kubeconfig(), 4)?;
    for _ in 0..3 {
        let before = history.acknowledged();
        poll::until("load", LONG, || if history.acknowledged() < before + 50 { bail!("not yet") } else { Ok(()) })?;
        let leader = leader(&cluster, 3)?;
        cluster.kill(&format!("store-{leader}"))?;
        let told = history.acknowledged();
        // What was under way may be answered at once; a write that began after the death counts.
        poll::until("writes resume", Duration::from_secs(3), || {
            if history.acknowledged() < told + 10 { bail!("{} since", history.acknowledged() - told) } else { Ok(()) }
        })?;
        cluster.start()?;
    }
    history.judge().map(|_| ())
}

#[test]
fn without_a_quorum_writes_are_refused_and_pods_run() -> anyhow::Result<()> {
    let cluster = Cluster::up(Options::new("--store-members 3"))?;
    cluster.apply(WEB)?;
    let pods = ready_pods(&cluster, "app=web", 2)?;
    cluster.kill("store-2")?;
    cluster.kill("store-3")?;
    let manifest = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"late"}}"#;
    let path = "/api/v1/namespaces/default/configmaps?timeout=5s";
    let refused = cluster.kubectl_with(&["create", "--raw", path, "-f", "-"], manifest)?;
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains("Timeout"), "{}", refused.stderr);
    let read = cluster.kubectl_with(&["get", "--raw", "/api/v1/namespaces/default/pods?resourceVersion=0"], "")?;
    let list = read.json()?;
    assert_eq!(list["items"].as_array().map(Vec::len), Some(2));
    for pod in &pods {
        assert!(containers::runs(&cluster, 1, &containers::id(pod)?)?);
    }
    cluster.start()?;
    // The refused write may have been applied meanwhile: its outcome was unknown, as a timeout says.
    let manifest = manifest.replace("late", "later");
    poll::until("writes again", LONG, || cluster.kubectl_with(&["create", "--raw", path, "-f", "-"], &manifest)?.ok())
        .map(|_| ())
}

#[test]
fn two_of_five_may_die() -> anyhow::Result<()> {
    let cluster = Cluster::up(Options::new("--only store,nats,apiserver --store-members 5"))?;
    let leader = leader(&cluster, 5)?;
    let other = if leader == 1 { 2 } else { 1 };
    let history = History::start(&cluster.kubeconfig(), 2)?;
    cluster.kill(&format!("store-{leader}"))?;
    cluster.kill(&format!("store-{other}"))?;
    let before = history.acknowledged();
    poll::until("writes go on", LONG, || {
        let since = history.acknowledged() - before;
        if since < 100 { bail!("{since} since") } else { Ok(()) }
    })?;
    history.judge().map(|_| ())
}

/// The number of the member that leads, by its own metrics.
fn leader(cluster: &Cluster, members: u8) -> anyhow::Result<u8> {
    poll::until("a leader", LONG, || {
        for n in 1..=members {
            let name = if n == 1 { "store-health".to_owned() } else { format!("store-{n}-health") };
            let metrics = http_get("127.0.0.1", cluster.port(&name)?, "/metrics")?;
            if metrics.lines().any(|l| l.starts_with("etcd_server_is_leader") && l.ends_with(" 1")) {
                return Ok(n);
            }
        }
        None.context("no member leads")
    })
}
