//! The machine: files, kernel settings, routes and rules. Every function looks first and changes only what is not as it
//! should be, and says whether it changed something.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::Error;
use crate::plan::Cidr;

/// Marks our routes among all others (a number that no routing daemon is known by).
const ROUTE_PROTOCOL: &str = "117";
/// Marks our rules of iptables.
pub(crate) const COMMENT: &str = "trireme pods";
/// How long a command may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// A program and the Debian package that has it.
#[derive(Clone, Copy)]
pub(crate) struct Program {
    name: &'static str,
    package: &'static str,
}

pub(crate) const IP: Program = Program { name: "ip", package: "iproute2" };
pub(crate) const NFT: Program = Program { name: "nft", package: "nftables" };
pub(crate) const IPTABLES: Program = Program { name: "iptables", package: "iptables" };
const MODPROBE: Program = Program { name: "modprobe", package: "kmod" };

/// Writes a file whole: a reader sees the old content or the new one.
///
/// # Errors
/// When it can't be written.
pub fn write_file(path: &Path, content: &str) -> Result<bool, Error> {
    if std::fs::read_to_string(path).is_ok_and(|present| present == content) {
        return Ok(false);
    }
    let failed = |path: &Path, source| Error::File { path: path.to_owned(), source };
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(|source| failed(dir, source))?;
    }
    // The runtime reads files by their ending, so this one it does not.
    let new = PathBuf::from(format!("{}.new", path.display()));
    let write = || -> std::io::Result<()> {
        let mut file = std::fs::File::create(&new)?;
        std::io::Write::write_all(&mut file, content.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&new, path)
    };
    write().map_err(|source| failed(path, source))?;
    Ok(true)
}

/// Lets the node forward packets, and its rules see what passes its bridges.
///
/// # Errors
/// When forwarding can't be switched on.
pub async fn enable_forwarding() -> Result<bool, Error> {
    let forward = switch_on("/proc/sys/net/ipv4/ip_forward")?;
    let bridge = Path::new("/proc/sys/net/bridge/bridge-nf-call-iptables");
    if !bridge.exists() {
        // In a container there may be no modprobe; the kernel may have it built in.
        let _ = run(MODPROBE, &["br_netfilter"], "").await;
    }
    match bridge.exists() {
        true => Ok(switch_on("/proc/sys/net/bridge/bridge-nf-call-iptables")? || forward),
        false => {
            tracing::debug!("no br_netfilter: Pods of this node do not reach each other through Services");
            Ok(forward)
        }
    }
}

fn switch_on(path: &str) -> Result<bool, Error> {
    let failed = |source| Error::File { path: path.into(), source };
    if std::fs::read_to_string(path).map_err(failed)?.trim() == "1" {
        return Ok(false);
    }
    std::fs::write(path, "1").map_err(failed)?;
    Ok(true)
}

#[derive(Deserialize)]
struct Route {
    dst: String,
    gateway: Option<Ipv4Addr>,
}

/// Makes our routes these. Others' routes are left alone, also one of the same range: ours is then not made, and that
/// is an error.
///
/// # Errors
/// When a route can't be read, added or removed. The others are made nevertheless.
pub async fn set_routes(wanted: &BTreeMap<Cidr, Ipv4Addr>) -> Result<bool, Error> {
    let listing = run(IP, &["-4", "-json", "route", "show", "proto", ROUTE_PROTOCOL], "").await?;
    let present: Vec<Route> = if listing.trim().is_empty() {
        Vec::new()
    } else {
        serde_json::from_str(&listing)
            .map_err(|error| Error::Failed { command: "ip route show".to_owned(), reason: error.to_string() })?
    };
    let present: BTreeMap<Cidr, Option<Ipv4Addr>> = present
        .into_iter()
        .filter_map(|route| {
            let range = if route.dst.contains('/') { route.dst } else { format!("{}/32", route.dst) };
            Some((range.parse().ok()?, route.gateway))
        })
        .collect();
    let mut changed = false;
    let mut outcome = Ok(());
    for range in present.keys().filter(|range| !wanted.contains_key(*range)) {
        changed = true;
        let range = range.to_string();
        outcome = outcome.and(run(IP, &["route", "delete", &range, "proto", ROUTE_PROTOCOL], "").await.map(drop));
    }
    for (range, via) in wanted.iter().filter(|(range, via)| present.get(*range) != Some(&Some(**via))) {
        changed = true;
        let (is_ours, range, via) = (present.contains_key(range), range.to_string(), via.to_string());
        if is_ours {
            // Not `replace`, which takes the first route of the range, whoever made it.
            outcome = outcome.and(run(IP, &["route", "delete", &range, "proto", ROUTE_PROTOCOL], "").await.map(drop));
        }
        let add = ["route", "add", &range, "via", &via, "proto", ROUTE_PROTOCOL];
        outcome = outcome.and(run(IP, &add, "").await.map(drop));
    }
    outcome.map(|()| changed)
}

/// Replaces a table of rules, in one transaction.
///
/// # Errors
/// When nft fails; the table is then as before.
pub async fn set_rules(script: &str) -> Result<(), Error> {
    run(NFT, &["-f", "-"], script).await.map(drop)
}

/// A table of rules as the kernel has it; none if there is no such table.
///
/// # Errors
/// When nft can't be run.
pub async fn rules(table: &str) -> Result<Option<String>, Error> {
    match run(NFT, &["--stateless", "list", "table", "ip", table], "").await {
        Ok(listing) => Ok(Some(listing)),
        Err(Error::Failed { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Lets packets of these ranges pass where iptables drops what it does not know, as Docker makes it.
///
/// # Errors
/// When iptables fails.
pub async fn accept_forwarded(ranges: &[Cidr]) -> Result<bool, Error> {
    let policy = match run(IPTABLES, &["-w", "-S", "FORWARD"], "").await {
        Ok(rules) => rules,
        // Without iptables nobody drops by it.
        Err(Error::Command { .. }) => return Ok(false),
        Err(error) => return Err(error),
    };
    if !policy.lines().any(|line| line == "-P FORWARD DROP") {
        return Ok(false);
    }
    let mut changed = false;
    for range in ranges {
        let range = range.to_string();
        for direction in ["-s", "-d"] {
            let rule = ["FORWARD", direction, &range, "-m", "comment", "--comment", COMMENT, "-j", "ACCEPT"];
            if run(IPTABLES, &[&["-w", "-C"], &rule[..]].concat(), "").await.is_err() {
                run(IPTABLES, &[&["-w", "-I"], &rule[..]].concat(), "").await?;
                changed = true;
            }
        }
    }
    Ok(changed)
}

#[derive(Deserialize)]
struct Link {
    ifname: String,
    mtu: u32,
    #[serde(default)]
    addr_info: Vec<Address>,
}

#[derive(Deserialize)]
struct Address {
    local: Option<String>,
}

/// The largest packet of the interface that has this address.
///
/// # Errors
/// When ip fails.
pub async fn mtu_of(address: Ipv4Addr) -> Result<Option<u32>, Error> {
    let listing = run(IP, &["-4", "-json", "address", "show"], "").await?;
    let links: Vec<Link> = serde_json::from_str(&listing)
        .map_err(|error| Error::Failed { command: "ip address show".to_owned(), reason: error.to_string() })?;
    let address = address.to_string();
    let has = |link: &&Link| link.addr_info.iter().any(|info| info.local.as_deref() == Some(&address));
    // The loopback's packets may be larger than any other interface's.
    Ok(links.iter().find(has).filter(|link| link.ifname != "lo").map(|link| link.mtu))
}

pub(crate) async fn run(program: Program, args: &[&str], input: &str) -> Result<String, Error> {
    let failed = |reason: String| Error::Failed { command: format!("{} {}", program.name, args.join(" ")), reason };
    let not_run = |source| Error::Command { command: program.name, package: program.package, source };
    let mut child = Command::new(program.name)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(not_run)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that fails early closes the pipe; what it says then is in its output.
        let _ = stdin.write_all(input.as_bytes()).await;
    }
    let output = tokio::time::timeout(LIMIT, child.wait_with_output())
        .await
        .map_err(|_| failed(format!("no answer within {LIMIT:?}")))?
        .map_err(not_run)?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let text = String::from_utf8_lossy(&output.stderr);
        Err(failed(text.lines().take(3).map(str::trim).collect::<Vec<_>>().join(" | ")))
    }
}
