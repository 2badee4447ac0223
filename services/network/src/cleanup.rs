//! `--cleanup`: a network goes, with what its Pods left of it.
//!
//! Pods that were ended by their runtime have left nothing. Where the runtime died first, the record that libcni keeps of
//! each attachment still says what the plugins have made, and the plugins remove it. Everything is tried, and repeating
//! it is harmless.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::Error;
use crate::agent::conf_file;
use crate::plan::Settings;
use crate::system::{self, COMMENT, IP, IPTABLES, LIMIT, NFT, run};

/// Where libcni keeps its records.
pub const RESULTS: &str = "/var/lib/cni/results";
/// Tables of agents are named so, or so with the instance behind it.
const TABLE: &str = "trireme";

/// Where things are on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// CNI configurations.
    pub conf_dir: PathBuf,
    /// CNI plugins.
    pub bin_dir: PathBuf,
    /// Records of attachments: [`RESULTS`].
    pub results: PathBuf,
}

/// Removes all that there is of the network.
///
/// # Errors
/// The first thing that could not be removed; the others are nevertheless.
pub async fn cleanup(settings: &Settings, places: &Places) -> Result<(), Error> {
    let mut outcome = Ok(());
    let mut note = |result: Result<(), Error>| match result {
        Err(error) if outcome.is_ok() => outcome = Err(error),
        Err(error) => tracing::error!(%error, "not removed"),
        Ok(()) => {}
    };
    for record in records(&places.results, &settings.name) {
        note(detach(&record, settings, places).await);
    }
    note(remove_file(&conf_file(&places.conf_dir, settings)));
    note(remove_dir(&settings.ipam_dir.join(&settings.name)));
    if link_exists(&settings.bridge) {
        note(run(IP, &["link", "delete", &settings.bridge], "").await.map(drop));
    }
    let table = &settings.name;
    note(run(NFT, &["-f", "-"], &format!("add table ip {table}\ndelete table ip {table}\n")).await.map(drop));
    match others().await {
        // Agents that share a network namespace cannot tell apart their routes and rules of iptables: the last one's
        // cleanup removes them, and those that lead over an interface go with it.
        Ok(others) if !others.is_empty() => tracing::info!(?others, "routes stay for the other networks here"),
        Ok(_) => {
            note(system::set_routes(&BTreeMap::new()).await.map(drop));
            note(refuse_forwarded().await);
        }
        Err(error) => note(Err(error)),
    }
    outcome
}

/// Other agents' tables.
async fn others() -> Result<Vec<String>, Error> {
    let listing = run(NFT, &["list", "tables", "ip"], "").await?;
    let names = listing.lines().filter_map(|line| line.strip_prefix("table ip "));
    Ok(names.filter(|name| *name == TABLE || name.starts_with("trireme-")).map(str::to_owned).collect())
}

/// Takes back what [`system::accept_forwarded`] did.
async fn refuse_forwarded() -> Result<(), Error> {
    let rules = match run(IPTABLES, &["-w", "-S", "FORWARD"], "").await {
        Err(Error::Command { .. }) => return Ok(()),
        rules => rules?,
    };
    let comment = format!("--comment \"{COMMENT}\"");
    let appended = rules.lines().filter(|line| line.starts_with("-A FORWARD"));
    let ours: Vec<usize> =
        appended.enumerate().filter(|(_, line)| line.contains(&comment)).map(|(at, _)| at + 1).collect();
    for number in ours.iter().rev() {
        run(IPTABLES, &["-w", "-D", "FORWARD", &number.to_string()], "").await?;
    }
    Ok(())
}

fn link_exists(name: &str) -> bool {
    let devices = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    devices.lines().filter_map(|line| line.split_once(':')).any(|(device, _)| device.trim() == name)
}

/// Records of this network: `<network>-<container id>-<interface>`. Another network's name may begin with this one's.
fn records(dir: &Path, network: &str) -> Vec<PathBuf> {
    let is_ours = |name: &str| {
        let rest = name.strip_prefix(network).and_then(|rest| rest.strip_prefix('-'));
        let id = rest.and_then(|rest| rest.split_once('-')).map_or("", |(id, _)| id);
        id.len() == 64 && id.chars().all(|c| c.is_ascii_hexdigit())
    };
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_str().is_some_and(is_ours)).map(|entry| entry.path()).collect()
}

/// Has the plugins remove what they made for an attachment, the last one first, as a runtime does for a Pod whose
/// namespace is gone; then forgets it.
async fn detach(record: &Path, settings: &Settings, places: &Places) -> Result<(), Error> {
    let list = std::fs::read(conf_file(&places.conf_dir, settings)).ok();
    let list: Option<Value> = list.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let text = std::fs::read(record).map_err(|source| Error::File { path: record.to_owned(), source })?;
    let known: Option<Value> = serde_json::from_slice(&text).ok();
    // Without either there is nothing to go by, and the record is of no use to anybody.
    if let (Some(list), Some(known)) = (list, known) {
        for plugin in list["plugins"].as_array().into_iter().flatten().rev() {
            let kind = plugin["type"].as_str().unwrap_or_default();
            let mut config = plugin.clone();
            config["cniVersion"] = list["cniVersion"].clone();
            config["name"] = list["name"].clone();
            config["prevResult"] = known["result"].clone();
            if known["capabilityArgs"].is_object() {
                config["runtimeConfig"] = known["capabilityArgs"].clone();
            }
            call(&places.bin_dir, kind, &known, &config.to_string()).await?;
        }
        // containerd attaches every Pod to its own loopback too, and that went with the Pod's namespace.
        if let Some(id) = known["containerId"].as_str().filter(|id| id.chars().all(|c| c.is_ascii_alphanumeric())) {
            remove_file(&places.results.join(format!("cni-loopback-{id}-lo")))?;
        }
    }
    remove_file(record)
}

/// One call of a plugin.
async fn call(bin_dir: &Path, kind: &str, known: &Value, config: &str) -> Result<(), Error> {
    let failed = |reason: String| Error::Failed { command: format!("{kind} DEL"), reason };
    let mut child = Command::new(bin_dir.join(kind))
        .env("CNI_COMMAND", "DEL")
        .env("CNI_CONTAINERID", known["containerId"].as_str().unwrap_or_default())
        .env("CNI_IFNAME", known["ifName"].as_str().unwrap_or("eth0"))
        .env("CNI_NETNS", "")
        .env("CNI_PATH", bin_dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    let stdin = child.stdin.take();
    let talk = async move {
        if let Some(mut stdin) = stdin {
            // One that fails early closes the pipe; what it says then is in its output.
            let _ = stdin.write_all(config.as_bytes()).await;
        }
        child.wait_with_output().await
    };
    let output = tokio::time::timeout(LIMIT, talk).await.map_err(|_| failed(format!("no answer within {LIMIT:?}")))?;
    let output = output.map_err(|error| failed(error.to_string()))?;
    if output.status.success() { Ok(()) } else { Err(failed(String::from_utf8_lossy(&output.stdout).into_owned())) }
}

fn remove_file(path: &Path) -> Result<(), Error> {
    gone(path, std::fs::remove_file(path))
}

fn remove_dir(path: &Path) -> Result<(), Error> {
    gone(path, std::fs::remove_dir_all(path))
}

fn gone(path: &Path, result: std::io::Result<()>) -> Result<(), Error> {
    match result {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::File { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_one_network() {
        let dir = tempfile::tempdir().unwrap();
        let id = "0123456789abcdef".repeat(4);
        for name in [format!("trireme-{id}-eth0"), format!("trireme-a1-{id}-eth0"), format!("cni-loopback-{id}-lo")] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let named = |network: &str| records(dir.path(), network);
        assert_eq!(named("trireme"), [dir.path().join(format!("trireme-{id}-eth0"))]);
        assert_eq!(named("trireme-a1"), [dir.path().join(format!("trireme-a1-{id}-eth0"))]);
        assert!(named("trireme-a").is_empty());
    }
}
