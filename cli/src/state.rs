//! The state directory of an instance: where its files are, and what its names and ports are.
//!
//! ```text
//! kubeconfig          the administrator's
//! ports.json          which port is whose
//! instance.json       id, network, nodes, the arguments of the last `up`
//! pki/                keys, certificates, kubeconfigs of components
//! data/<service>/     one folder a service, owned by it
//! logs/<process>.log
//! pids/<process>.json
//! nodes/<node>/       containerd, CNI configuration, kubelet of a node
//! lock                held by `up` and `down` while they work
//! ```

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    net::Ipv4Addr,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The state directory.
#[derive(Debug, Clone)]
pub(crate) struct State {
    root: PathBuf,
}

/// What an instance keeps of itself.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct Instance {
    /// Version of this file's form.
    pub(crate) version: u32,
    /// Six hexadecimal digits, in every name that the kernel keeps for all.
    pub(crate) id: String,
    /// The first three octets of the network that joins the nodes: `.1` is this machine, `.n+1` node n.
    pub(crate) network: [u8; 3],
    /// Store members, as many as at the first `up`.
    pub(crate) store_members: u8,
    /// The nodes by number, and whether each shares this machine's network.
    pub(crate) nodes: BTreeMap<u8, bool>,
    /// Whether an `up` of all its parts ended well once: from then on the examples are the user's. Files of before this
    /// was kept are of instances that were used.
    #[serde(default = "yes")]
    pub(crate) was_up: bool,
}

fn yes() -> bool {
    true
}

impl Instance {
    /// The bridge that joins the nodes.
    pub(crate) fn bridge(&self) -> String {
        format!("trb-{}", self.id)
    }

    /// This machine on the bridge.
    pub(crate) fn host_address(&self) -> Ipv4Addr {
        self.address(1)
    }

    /// The address of node `n`; a node that shares this machine's network has this machine's.
    pub(crate) fn node_address(&self, n: u8) -> Ipv4Addr {
        if self.nodes.get(&n).copied().unwrap_or_default() { self.host_address() } else { self.address(n + 1) }
    }

    fn address(&self, last: u8) -> Ipv4Addr {
        let [a, b, c] = self.network;
        Ipv4Addr::new(a, b, c, last)
    }

    /// The network namespace of node `n`.
    pub(crate) fn namespace(&self, n: u8) -> String {
        format!("trireme-{}-n{n}", self.id)
    }

    /// The node's cgroup, below every controller's root.
    pub(crate) fn cgroup(&self, n: u8) -> String {
        format!("/trireme-{}-n{n}", self.id)
    }
}

impl State {
    /// The state directory at `root`, made if there is none.
    pub(crate) fn open(root: &Path) -> anyhow::Result<Self> {
        let make = || -> io::Result<()> {
            fs::create_dir_all(root)?;
            // The store's data and the Pods' volumes are nobody else's to read.
            fs::set_permissions(root, fs::Permissions::from_mode(0o700))
        };
        make().with_context(|| format!("cannot make the state directory {}", root.display()))?;
        Ok(Self { root: root.canonicalize().with_context(|| root.display().to_string())? })
    }

    /// The state directory at `root`, or `None` if there is none.
    pub(crate) fn existing(root: &Path) -> Option<Self> {
        root.canonicalize().ok().filter(|r| r.is_dir()).map(|root| Self { root })
    }

    /// The one that was at `root` and is not any more: it still says the instance's id.
    pub(crate) fn lost(root: &Path) -> anyhow::Result<Self> {
        let root = std::path::absolute(root).with_context(|| root.display().to_string())?;
        // Of the folders above it, those that are left say what they are called.
        let above = root.ancestors().skip(1).find_map(|a| Some((a.canonicalize().ok()?, root.strip_prefix(a).ok()?)));
        let root = above.map(|(above, below)| above.join(below)).unwrap_or_else(|| root.clone());
        Ok(Self { root })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.root.join("kubeconfig")
    }

    pub(crate) fn pki(&self) -> PathBuf {
        self.root.join("pki")
    }

    pub(crate) fn data(&self, service: &str) -> PathBuf {
        self.root.join("data").join(service)
    }

    pub(crate) fn log(&self, process: &str) -> PathBuf {
        self.root.join("logs").join(format!("{process}.log"))
    }

    pub(crate) fn pids(&self) -> PathBuf {
        self.root.join("pids")
    }

    pub(crate) fn node(&self, n: u8) -> PathBuf {
        self.root.join("nodes").join(n.to_string())
    }

    /// Sockets and what else does not outlive a boot; short, as the path of a socket must be.
    pub(crate) fn run(&self) -> PathBuf {
        PathBuf::from("/run/trireme").join(self.id())
    }

    /// The instance's id: of the state directory's path.
    pub(crate) fn id(&self) -> String {
        let digest = Sha256::digest(self.root.as_os_str().as_encoded_bytes());
        digest.iter().take(3).map(|b| format!("{b:02x}")).collect()
    }

    /// What the instance keeps of itself, if it was ever up.
    pub(crate) fn instance(&self) -> anyhow::Result<Option<Instance>> {
        read_json(&self.root.join("instance.json"))
    }

    pub(crate) fn write_instance(&self, instance: &Instance) -> anyhow::Result<()> {
        write_json(&self.root.join("instance.json"), instance)
    }

    /// Which port is whose.
    pub(crate) fn ports(&self) -> anyhow::Result<BTreeMap<String, u16>> {
        Ok(read_json(&self.root.join("ports.json"))?.unwrap_or_default())
    }

    pub(crate) fn write_ports(&self, ports: &BTreeMap<String, u16>) -> anyhow::Result<()> {
        write_json(&self.root.join("ports.json"), ports)
    }
}

/// The value in a file, or `None` if there is no such file.
pub(crate) fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> anyhow::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).with_context(|| path.display().to_string()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e).with_context(|| path.display().to_string()),
    }
}

/// Writes a value so that the file is there whole or not at all, after a power cut too.
pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T) -> anyhow::Result<()> {
    let temporary = path.with_extension("new");
    let mut bytes = serde_json::to_vec_pretty(value)?;
    bytes.push(b'\n');
    let write = || -> io::Result<()> {
        let mut file = fs::File::create(&temporary)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        path.parent().map_or(Ok(()), |folder| fs::File::open(folder)?.sync_all())
    };
    write().with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_older_trireme_wrote_is_read() {
        let text = r#"{"version":1,"id":"0a1b2c","network":[10,200,7],"store_members":1,"nodes":{"1":true}}"#;
        let instance: Instance = serde_json::from_str(text).unwrap();
        assert!(instance.was_up);
        assert_eq!(instance.nodes, [(1, true)].into());
    }

    #[test]
    fn it_is_nobody_elses() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("state");
        fs::create_dir(&root).unwrap();
        State::open(&root).unwrap();
        assert_eq!(fs::metadata(&root).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_lost_instance_has_the_id_that_it_had() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        fs::create_dir(folder.path().join("real")).unwrap();
        std::os::unix::fs::symlink("real", &link).unwrap();
        let known = State::open(&link.join("a/state")).unwrap().id();
        fs::remove_dir_all(folder.path().join("real/a")).unwrap();
        assert!(State::existing(&link.join("a/state")).is_none());
        assert_eq!(State::lost(&link.join("a/state")).unwrap().id(), known);
    }
}
