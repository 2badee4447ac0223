//! What must be there before anything is started, each missing thing in one line with its remedy.

use std::{collections::BTreeSet, path::Path};

use anyhow::bail;

use super::options::Part;

/// Programs that a part runs, and the Debian package of each.
const PROGRAMS: &[(Part, &str, &str)] = &[
    (Part::Nats, "nats-server", "nats-server"),
    (Part::Kubelet, "containerd", "containerd"),
    (Part::Kubelet, "runc", "runc"),
    (Part::Kubelet, "ctr", "containerd"),
    (Part::Kubelet, "mount", "mount"),
    (Part::Proxy, "nft", "nftables"),
    (Part::Network, "ip", "iproute2"),
];

/// Where Debian's package puts the CNI plugins.
pub(crate) const CNI_PLUGINS: &str = "/usr/lib/cni";

/// Refuses what cannot work.
///
/// # Errors
/// One line that says what is missing and how to get it.
pub(crate) fn check(parts: &BTreeSet<Part>, nodes: u8) -> anyhow::Result<()> {
    let on_node = [Part::Kubelet, Part::Proxy, Part::Network].iter().any(|p| parts.contains(p)) && nodes > 0;
    if on_node && !nix::unistd::geteuid().is_root() {
        bail!(
            "a node needs root (containers, network): run this as root, or start the control plane alone with --nodes 0"
        );
    }
    for (part, program, package) in PROGRAMS {
        let wanted = parts.contains(part) && (*part == Part::Nats || nodes > 0);
        if wanted && find(program).is_none() {
            if *part == Part::Nats {
                continue; // Without a bus the API servers follow the store's watch.
            }
            bail!("{program} is not installed: apt-get install {package}");
        }
    }
    if on_node && parts.contains(&Part::Network) && !Path::new(CNI_PLUGINS).join("bridge").exists() {
        bail!("no CNI plugins in {CNI_PLUGINS}: apt-get install containernetworking-plugins");
    }
    Ok(())
}

/// A program in PATH, or where administrators' programs are.
pub(crate) fn find(program: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/local/bin"].map(Into::into))
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
}
