//! The processes of a node: containerd, network agent, kubelet, proxy, each with its own folders.

use std::{fs, net::Ipv4Addr, path::PathBuf};

use anyhow::Context as _;
use trireme_pki::{AuthorityName, Identity};

use super::{preflight, services::Plan};
use crate::{
    process::{Process, Ready},
    program,
    state::{Instance, State},
};

/// The range of all Pods.
const PODS: &str = "--cluster-cidr=10.244.0.0/16";

/// What removes all that network agent and proxy of node `n` made: programs and their arguments.
pub(crate) fn cleanups(state: &State, instance: &Instance, n: u8) -> [(&'static str, Vec<String>); 2] {
    let cleanup = |arguments: Vec<String>| arguments.into_iter().chain(["--cleanup".to_owned()]).collect();
    [("trireme-network", cleanup(network_flags(state, instance, n))), ("trireme-proxy", cleanup(proxy_flags(instance)))]
}

/// What says which things on the node are the network agent's.
fn network_flags(state: &State, instance: &Instance, n: u8) -> Vec<String> {
    vec![
        format!("--cni-conf-dir={}", state.node(n).join("cni").display()),
        format!("--ipam-dir={}", state.node(n).join("ipam").display()),
        format!("--instance={}", instance.id),
        PODS.to_owned(),
    ]
}

fn proxy_flags(instance: &Instance) -> Vec<String> {
    vec![PODS.to_owned(), format!("--table-suffix={}", instance.id)]
}

/// A node of an instance.
pub(crate) struct Node<'a> {
    plan: &'a Plan<'a>,
    n: u8,
}

impl<'a> Node<'a> {
    pub(crate) fn new(plan: &'a Plan<'a>, n: u8) -> Self {
        Self { plan, n }
    }

    /// The node's name: this machine's for a node that shares its network, else `node-<n>`.
    pub(crate) fn name(&self) -> String {
        format!("node-{}", self.n)
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.plan.state.node(self.n).join(name)
    }

    fn address(&self) -> Ipv4Addr {
        self.plan.instance.node_address(self.n)
    }

    /// The socket that containerd serves CRI on.
    pub(crate) fn socket(&self) -> PathBuf {
        self.plan.state.run().join(format!("containerd-{}.sock", self.n))
    }

    fn inside(&self, mut process: Process) -> Process {
        let shares = self.plan.instance.nodes.get(&self.n).copied().unwrap_or_default();
        process.namespace = (!shares).then(|| self.plan.instance.namespace(self.n));
        process
    }

    fn port(&self, name: &str) -> anyhow::Result<u16> {
        self.plan.ports.get(&format!("{name}-{}", self.n))
    }

    /// Writes containerd's configuration; gives back its process.
    pub(crate) fn containerd(&self) -> anyhow::Result<Process> {
        let folder = self.folder("containerd");
        let cni = self.folder("cni");
        for folder in [&folder, &cni, &self.plan.state.run()] {
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        let config = folder.join("config.toml");
        let text = format!(
            r#"version = 2
root = "{root}"
state = "{state}"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper"]

[grpc]
address = "{socket}"

[ttrpc]
address = "{socket}.ttrpc"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "trireme.local/pause:1"
disable_apparmor = true
restrict_oom_score_adj = true
stream_server_address = "127.0.0.1"
stream_server_port = "{stream}"

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{plugins}"
conf_dir = "{cni}"

[plugins."io.containerd.grpc.v1.cri".containerd]
default_runtime_name = "runc"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"#,
            root = folder.join("root").display(),
            state = self.plan.state.run().join(format!("containerd-{}", self.n)).display(),
            socket = self.socket().display(),
            stream = self.port("containerd-stream")?,
            plugins = preflight::CNI_PLUGINS,
            cni = cni.display(),
        );
        fs::write(&config, text).with_context(|| config.display().to_string())?;
        Ok(self.inside(Process {
            name: format!("containerd-{}", self.n),
            program: program::find("containerd").unwrap_or_else(|| "containerd".into()),
            arguments: vec![format!("--config={}", config.display()), "--log-level=warn".to_owned()],
            environment: Vec::new(),
            namespace: None,
            ready: Ready::Socket(self.socket()),
        }))
    }

    pub(crate) fn network(&self) -> anyhow::Result<Process> {
        let port = self.port("network")?;
        // It reads all Nodes; a kubelet's identity may read its own only.
        let mut arguments = self.plan.client(&Identity::proxy(), self.plan.instance.host_address())?;
        arguments.extend([
            format!("--hostname-override={}", self.name()),
            format!("--cni-bin-dir={}", preflight::CNI_PLUGINS),
            format!("--health-bind-address={}:{port}", self.address()),
        ]);
        arguments.extend(network_flags(self.plan.state, self.plan.instance, self.n));
        let process =
            self.plan.process(&format!("network-{}", self.n), "network", arguments, Ready::Http(self.address(), port));
        Ok(self.inside(process))
    }

    pub(crate) fn kubelet(&self) -> anyhow::Result<Process> {
        let health = self.port("kubelet-health")?;
        let identity = Identity::kubelet(&self.name());
        let serving = self.plan.pki.issue(&Identity::kubelet_server(&self.name(), &[self.address().to_string()]))?;
        let mut arguments = self.plan.client(&identity, self.plan.instance.host_address())?;
        arguments.extend([
            format!("--hostname-override={}", self.name()),
            format!("--node-ip={}", self.address()),
            format!("--root-dir={}", self.folder("kubelet").display()),
            format!("--pod-log-dir={}", self.folder("pod-logs").display()),
            format!("--pod-manifest-path={}", self.folder("manifests").display()),
            format!("--container-runtime-endpoint=unix://{}", self.socket().display()),
            format!("--cgroup-root={}", self.plan.instance.cgroup(self.n)),
            "--cgroup-driver=cgroupfs".to_owned(),
            // A developer's disk is often nearly full, and no image garbage collection helps here: as kind has it.
            "--eviction-hard=memory.available<100Mi,nodefs.available<0%,nodefs.inodesFree<0%".to_owned(),
            format!("--port={}", self.port("kubelet")?),
            // Nodes share this machine; they are asked at --health-bind-address.
            "--healthz-port=0".to_owned(),
            format!("--tls-cert-file={}", serving.cert.display()),
            format!("--tls-private-key-file={}", serving.key.display()),
            format!("--client-ca-file={}", self.plan.pki.authority_file(AuthorityName::Cluster).display()),
            "--cluster-dns=10.96.0.10".to_owned(),
            "--cluster-domain=cluster.local".to_owned(),
            format!("--health-bind-address={}:{health}", self.address()),
        ]);
        let process = self.plan.process(
            &format!("kubelet-{}", self.n),
            "kubelet",
            arguments,
            Ready::Http(self.address(), health),
        );
        Ok(self.inside(process))
    }

    pub(crate) fn proxy(&self) -> anyhow::Result<Process> {
        let port = self.port("proxy")?;
        let mut arguments = self.plan.client(&Identity::proxy(), self.plan.instance.host_address())?;
        arguments.extend([
            format!("--hostname-override={}", self.name()),
            "--proxy-mode=nftables".to_owned(),
            format!("--health-bind-address={}:{port}", self.address()),
        ]);
        arguments.extend(proxy_flags(self.plan.instance));
        let process =
            self.plan.process(&format!("proxy-{}", self.n), "proxy", arguments, Ready::Http(self.address(), port));
        Ok(self.inside(process))
    }
}
