//! The main job: a Deployment and its Service become running containers that answer.

use std::collections::BTreeSet;

use anyhow::{Context as _, bail};
use serde_json::Value;
use trireme_testkit::{Cluster, Options, poll};

use crate::containers;
use crate::support::{LONG, WEB, http_get, is_ready, items, ready_pods};

#[test]
fn a_deployment_runs_and_its_service_answers_from_both_pods() -> anyhow::Result<()> {
    let cluster = Cluster::up(Options::default())?;
    let nodes = items(&cluster, "get nodes -o json")?;
    assert!(nodes.iter().all(is_ready) && nodes.len() == 1, "{nodes:?}");

    assert_eq!(cluster.apply(WEB)?, "deployment.apps/web created\nservice/web created\n");
    let pods = ready_pods(&cluster, "app=web", 2)?;

    let service = cluster.kubectl("get service web -o json")?.json()?;
    let address = service["spec"]["clusterIP"].as_str().context("clusterIP")?;
    let wanted: BTreeSet<String> =
        pods.iter().filter_map(|p| p["metadata"]["name"].as_str().map(str::to_owned)).collect();
    let mut answered = BTreeSet::new();
    poll::until("both Pods answer", LONG, || {
        let body = http_get(address, 80, "/who")?;
        answered.extend(body.lines().next().and_then(|l| l.strip_prefix("pod: ")).map(str::to_owned));
        if answered != wanted {
            bail!("answered: {answered:?}, wanted: {wanted:?}");
        }
        Ok(())
    })?;

    for pod in &pods {
        assert!(containers::runs(&cluster, 1, &containers::id(pod)?)?);
    }
    Ok(())
}

/// Down and up again: everything is as it was.
#[test]
fn down_and_up_keeps_everything() -> anyhow::Result<()> {
    let cluster = Cluster::up(Options::default())?;
    cluster.apply(WEB)?;
    let uids =
        |pods: Vec<Value>| -> BTreeSet<String> { pods.iter().map(|p| p["metadata"]["uid"].to_string()).collect() };
    let pods = uids(ready_pods(&cluster, "app=web", 2)?);
    let before = cluster.kubectl("get deployment web -o json")?.json()?;
    cluster.stop()?;
    assert!(cluster.processes()?.is_empty());
    cluster.start()?;
    let after = cluster.kubectl("get deployment web -o json")?.json()?;
    assert_eq!(before["metadata"]["uid"], after["metadata"]["uid"]);
    assert_eq!(before["spec"], after["spec"]);
    assert_eq!(uids(ready_pods(&cluster, "app=web", 2)?), pods);
    // A second `up` starts nothing and changes nothing.
    let pid = cluster.pid("apiserver")?;
    cluster.start()?;
    assert_eq!(pid, cluster.pid("apiserver")?);
    Ok(())
}
