//! The containers of a node as containerd sees them, beside what the API says.

use std::process::Command;

use anyhow::{Context as _, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use trireme_testkit::Cluster;

/// `ctr -n k8s.io ARGUMENTS` on a node's own containerd.
pub(crate) fn ctr(cluster: &Cluster, node: u8, arguments: &[&str]) -> anyhow::Result<String> {
    let config = cluster.state().join(format!("nodes/{node}/containerd/config.toml"));
    let config = std::fs::read_to_string(&config).with_context(|| config.display().to_string())?;
    let socket = config
        .lines()
        .find_map(|l| l.strip_prefix("address = \"")?.strip_suffix('"'))
        .context("no address in containerd's configuration")?;
    let output = Command::new("ctr").args(["-a", socket, "-n", "k8s.io"]).args(arguments).output()?;
    if !output.status.success() {
        bail!("ctr {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The id of a Pod's first container.
pub(crate) fn id(pod: &Value) -> anyhow::Result<String> {
    let id = pod["status"]["containerStatuses"][0]["containerID"].as_str().context("containerID")?;
    Ok(id.strip_prefix("containerd://").context("scheme of containerID")?.to_owned())
}

/// Whether containerd runs the container.
pub(crate) fn runs(cluster: &Cluster, node: u8, id: &str) -> anyhow::Result<bool> {
    Ok(pid(cluster, node, id)?.is_some())
}

/// `kill -9` of a container's process.
pub(crate) fn kill_process(cluster: &Cluster, node: u8, id: &str) -> anyhow::Result<()> {
    let pid = pid(cluster, node, id)?.with_context(|| format!("container {id} does not run"))?;
    kill(Pid::from_raw(pid), Signal::SIGKILL).context("kill")
}

fn pid(cluster: &Cluster, node: u8, id: &str) -> anyhow::Result<Option<i32>> {
    for line in ctr(cluster, node, &["tasks", "ls"])?.lines() {
        if let [task, pid, "RUNNING"] = line.split_whitespace().collect::<Vec<_>>().as_slice()
            && *task == id
        {
            return Ok(Some(pid.parse()?));
        }
    }
    Ok(None)
}
