//! What an instance makes in this machine's kernel: a bridge that joins its nodes, a network namespace a node.
//!
//! Everything is made idempotently by `ip` and `nft`, and carries the instance's id in its name.

use std::{collections::BTreeSet, io, path::Path, process::Stdio};

use anyhow::{Context as _, anyhow, bail};

use crate::{down::Faults, program, state::Instance};

/// Runs a program; an error says what it said.
pub(crate) fn run(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let output = program::command(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| cannot_run(program, error))?;
    if !output.status.success() {
        bail!("{program} {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn cannot_run(program: &str, error: io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::NotFound => anyhow!(program::missing(program)),
        _ => anyhow!(error).context(format!("cannot run {program}")),
    }
}

/// Every IPv4 network that an interface of this machine lies in, as `ip` prints them.
pub(crate) fn addresses() -> anyhow::Result<String> {
    run("ip", &["-4", "-o", "addr"])
}

/// Whether this network namespace has such an interface (sysfs may show the namespace that mounted it).
fn has_link(name: &str) -> bool {
    links().iter().any(|link| link == name)
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

/// Takes away whatever carries the id of an instance on this machine: namespaces, links and tables, those that its
/// network agent and its proxy made too. Everything is tried; what is not there is no error.
pub(crate) fn remove(id: &str, faults: &mut Faults) {
    let prefix = format!("trireme-{id}-n");
    for namespace in namespaces().iter().filter(|name| name.starts_with(&prefix)) {
        faults.note(run("ip", &["netns", "del", namespace]).map(drop));
    }
    let carries = |name: &str| name.split('-').any(|part| part == id);
    for link in links().iter().filter(|name| carries(name)) {
        // The other end of a pair may have taken it along.
        if has_link(link) {
            faults.note(run("ip", &["link", "del", link]).map(drop));
        }
    }
    for line in faults.note(run("nft", &["list", "tables"])).unwrap_or_default().lines() {
        if let ["table", family, name] = line.split_whitespace().collect::<Vec<_>>().as_slice()
            && carries(name)
        {
            faults.note(run("nft", &["delete", "table", family, name]).map(drop));
        }
    }
}

/// Removes the network namespaces of Pods that had processes in them, by inode: those that CNI made, no others.
pub(crate) fn remove_pod_namespaces(inodes: &BTreeSet<u64>, faults: &mut Faults) {
    use std::os::unix::fs::MetadataExt as _;
    for name in namespaces().iter().filter(|name| name.starts_with("cni-")) {
        let inode = std::fs::metadata(Path::new("/run/netns").join(name)).map(|meta| meta.ino());
        if inode.is_ok_and(|inode| inodes.contains(&inode)) {
            faults.note(run("ip", &["netns", "del", name]).map(drop));
        }
    }
}

/// The named network namespaces.
fn namespaces() -> Vec<String> {
    let entries = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// The interfaces of this network namespace.
fn links() -> Vec<String> {
    let devices = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
    devices.lines().filter_map(|line| line.split_once(':')).map(|(device, _)| device.trim().to_owned()).collect()
}

/// The network agent has a table in the same family, `trireme-<id>`, which it replaces as a whole.
fn table(instance: &Instance) -> String {
    format!("trn-{}", instance.id)
}

fn veth(instance: &Instance, n: u8) -> String {
    format!("trv-{}-{n}", instance.id)
}

/// One nft transaction.
fn apply_rules(rules: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    let mut nft = program::command("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| cannot_run("nft", error))?;
    if let Some(mut input) = nft.stdin.take() {
        input.write_all(rules.as_bytes()).context("nft")?;
    }
    let output = nft.wait_with_output().context("nft")?;
    if !output.status.success() {
        bail!("nft: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs root, as all that has to do with nodes does.
    #[test]
    fn all_that_carries_the_id_goes_and_nothing_else() {
        let id = format!("{:06x}", std::process::id());
        let other = format!("x{id}");
        for link in [format!("trb-{id}"), format!("tri-{other}")] {
            run("ip", &["link", "add", &link, "type", "bridge"]).unwrap();
        }
        run("ip", &["link", "add", &format!("trv-{id}-2"), "type", "veth", "peer", "name", &format!("p-{id}")])
            .unwrap();
        run("ip", &["netns", "add", &format!("trireme-{id}-n2")]).unwrap();
        for table in
            ["trireme", "kube-proxy", "trn"].map(|of| format!("{of}-{id}")).iter().chain([&format!("trireme-{other}")])
        {
            run("nft", &["add", "table", "ip", table]).unwrap();
        }
        let mut faults = Faults::default();
        remove(&id, &mut faults);
        faults.result().unwrap();
        let left = format!("{:?} {:?} {}", links(), namespaces(), run("nft", &["list", "tables"]).unwrap());
        assert!(left.contains(&format!("tri-{other}")) && left.contains(&format!("trireme-{other}")), "{left}");
        assert!(!left.contains(&format!("-{id}")), "{left}");
        let mut faults = Faults::default();
        remove(&other, &mut faults);
        remove(&id, &mut faults);
        faults.result().unwrap();
    }
}
