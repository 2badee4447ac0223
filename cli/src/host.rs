//! What an instance makes in this machine's kernel: a bridge that joins its nodes, a network namespace a node.
//!
//! Everything is made idempotently by `ip` and `nft`, and carries the instance's id in its name.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, bail};

use crate::state::Instance;

/// Runs a program; an error says what it said.
pub(crate) fn run(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        bail!("{program} {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Every IPv4 network that an interface of this machine lies in, as `ip` prints them.
pub(crate) fn addresses() -> anyhow::Result<String> {
    run("ip", &["-4", "-o", "addr"])
}

/// Whether this network namespace has such an interface (sysfs may show the namespace that mounted it).
fn has_link(name: &str) -> bool {
    let devices = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
    devices.lines().filter_map(|l| l.split_once(':')).any(|(device, _)| device.trim() == name)
}

/// The bridge with this machine's address, forwarding on, and the nodes' way out masqueraded.
pub(crate) fn ensure_bridge(instance: &Instance) -> anyhow::Result<()> {
    let bridge = instance.bridge();
    if !has_link(&bridge) {
        run("ip", &["link", "add", &bridge, "type", "bridge"])?;
    }
    run("ip", &["addr", "replace", &format!("{}/24", instance.host_address()), "dev", &bridge])?;
    run("ip", &["link", "set", &bridge, "up"])?;
    std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").context("cannot turn IPv4 forwarding on")?;
    let table = table(instance);
    let [a, b, c] = instance.network;
    let rules = format!(
        "table ip {table} {{}}\nflush table ip {table}\ntable ip {table} {{\n\
         chain out {{ type nat hook postrouting priority 100; ip saddr {a}.{b}.{c}.0/24 oifname != \"{bridge}\" masquerade; }}\n}}\n"
    );
    apply_rules(&rules)
}

/// The network namespace of node `n`, joined to the bridge.
pub(crate) fn ensure_namespace(instance: &Instance, n: u8) -> anyhow::Result<()> {
    let namespace = instance.namespace(n);
    if !Path::new("/run/netns").join(&namespace).exists() {
        run("ip", &["netns", "add", &namespace])?;
    }
    let inside = |arguments: &[&str]| {
        let mut all = vec!["-n", namespace.as_str()];
        all.extend(arguments);
        run("ip", &all)
    };
    inside(&["link", "set", "lo", "up"])?;
    let veth = veth(instance, n);
    if !has_link(&veth) {
        run("ip", &["link", "add", &veth, "type", "veth", "peer", "name", "eth0", "netns", &namespace])?;
    }
    run("ip", &["link", "set", &veth, "master", &instance.bridge(), "up"])?;
    inside(&["addr", "replace", &format!("{}/24", instance.node_address(n)), "dev", "eth0"])?;
    inside(&["link", "set", "eth0", "up"])?;
    inside(&["route", "replace", "default", "via", &instance.host_address().to_string()])?;
    Ok(())
}

/// Takes away what an instance made; what is not there is no error.
pub(crate) fn remove(instance: &Instance) -> anyhow::Result<()> {
    for n in instance.nodes.keys() {
        let veth = veth(instance, *n);
        if has_link(&veth) {
            run("ip", &["link", "del", &veth])?;
        }
        let namespace = instance.namespace(*n);
        if Path::new("/run/netns").join(&namespace).exists() {
            run("ip", &["netns", "del", &namespace])?;
        }
    }
    let bridge = instance.bridge();
    if has_link(&bridge) {
        run("ip", &["link", "del", &bridge])?;
    }
    let table = table(instance);
    apply_rules(&format!("table ip {table} {{}}\ndelete table ip {table}\n"))
}

fn table(instance: &Instance) -> String {
    format!("trireme-{}", instance.id)
}

fn veth(instance: &Instance, n: u8) -> String {
    format!("trv-{}-{n}", instance.id)
}

/// One nft transaction.
fn apply_rules(rules: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    let mut nft = Command::new("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run nft")?;
    if let Some(mut input) = nft.stdin.take() {
        input.write_all(rules.as_bytes()).context("nft")?;
    }
    let output = nft.wait_with_output().context("nft")?;
    if !output.status.success() {
        bail!("nft: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
