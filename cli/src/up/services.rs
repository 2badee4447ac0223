//! The processes of the control plane: what each is started with. Pure: ports, files and names in, processes out.

use std::{fs, net::Ipv4Addr, path::PathBuf};

use anyhow::Context as _;
use trireme_pki::{AuthorityName, Identity, Pair, Pki};

use super::ports::Ports;
use crate::{
    bus,
    process::{Process, Ready},
    state::{Instance, State},
};

/// Everything that the processes' arguments are made of.
pub(crate) struct Plan<'a> {
    pub(crate) state: &'a State,
    pub(crate) instance: &'a Instance,
    pub(crate) ports: &'a Ports,
    pub(crate) pki: &'a Pki,
    /// The folder of our programs.
    pub(crate) programs: PathBuf,
    pub(crate) otlp: Option<&'a str>,
    /// Whether the bus runs.
    pub(crate) nats: bool,
}

const LOOPBACK: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// A port's names: `store`, `store-2`, … (clients), `store-peer`, …, `store-health`, ….
pub(crate) fn store_port(n: u8, role: &str) -> String {
    match (n, role) {
        (1, "") => "store".to_owned(),
        (1, role) => format!("store-{role}"),
        (n, "") => format!("store-{n}"),
        (n, role) => format!("store-{n}-{role}"),
    }
}

/// Every port that the control plane and the nodes need.
pub(crate) fn port_names(store_members: u8, nodes: impl Iterator<Item = u8>) -> Vec<String> {
    let mut names: Vec<String> = ["resources", "nats", "controllers", "scheduler"].map(str::to_owned).into();
    for n in 1..=store_members {
        names.extend(["", "peer", "health"].map(|role| store_port(n, role)));
    }
    for n in nodes {
        names
            .extend(["kubelet", "kubelet-health", "proxy", "network", "containerd-stream"].map(|s| format!("{s}-{n}")));
    }
    names
}

impl Plan<'_> {
    /// A service of ours: `trireme-<service>`, with the arguments that every service takes.
    pub(crate) fn process(&self, name: &str, service: &str, mut arguments: Vec<String>, ready: Ready) -> Process {
        if let Some(otlp) = self.otlp {
            arguments.push(format!("--otlp-endpoint={otlp}"));
        }
        Process {
            name: name.to_owned(),
            program: self.programs.join(format!("trireme-{service}")),
            arguments,
            environment: Vec::new(),
            namespace: None,
            ready,
        }
    }

    /// `https://host:port` of the REST door, as this machine or a node sees it.
    pub(crate) fn server(&self, host: Ipv4Addr) -> anyhow::Result<String> {
        Ok(format!("https://{host}:{}", self.ports.get("apiserver")?))
    }

    /// `https://host:port` of the gRPC door.
    pub(crate) fn resources(&self, host: Ipv4Addr) -> anyhow::Result<String> {
        Ok(format!("https://{host}:{}", self.ports.get("resources")?))
    }

    pub(crate) fn nats(&self) -> anyhow::Result<Process> {
        let port = self.ports.get("nats")?;
        let members: Vec<String> = (1..=self.instance.store_members).map(|n| format!("store-{n}")).collect();
        let text = bus::configuration(self.pki, &format!("127.0.0.1:{port}"), &members, &[])?;
        let file = self.state.pki().join("nats.conf");
        fs::write(&file, text).with_context(|| file.display().to_string())?;
        Ok(Process {
            name: "nats".to_owned(),
            program: crate::program::find("nats-server").unwrap_or_else(|| "nats-server".into()),
            arguments: vec![format!("--config={}", file.display())],
            environment: Vec::new(),
            namespace: None,
            ready: Ready::Tcp(port),
        })
    }

    /// How a client with this certificate reaches the bus, if there is one.
    fn bus(&self, Pair { cert, key }: &Pair) -> anyhow::Result<Vec<String>> {
        if !self.nats {
            return Ok(Vec::new());
        }
        Ok(vec![
            format!("--nats-url=tls://127.0.0.1:{}", self.ports.get("nats")?),
            format!("--nats-ca-file={}", self.pki.authority_file(AuthorityName::Store).display()),
            format!("--nats-cert-file={}", cert.display()),
            format!("--nats-key-file={}", key.display()),
        ])
    }

    pub(crate) fn store(&self, n: u8) -> anyhow::Result<Process> {
        let url = |port: u16| format!("https://127.0.0.1:{port}");
        let (client, peer) = (self.ports.get(&store_port(n, ""))?, self.ports.get(&store_port(n, "peer"))?);
        let health = self.ports.get(&store_port(n, "health"))?;
        let pair = self.pki.issue(&Identity::store_member(&format!("store-{n}"), &[]))?;
        let Pair { cert, key } = &pair;
        let authority = self.pki.authority_file(AuthorityName::Store);
        let members = (1..=self.instance.store_members)
            .map(|m| Ok(format!("store-{m}={}", url(self.ports.get(&store_port(m, "peer"))?))))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let mut arguments = vec![
            format!("--name=store-{n}"),
            format!("--data-dir={}", self.state.data(&format!("store-{n}")).display()),
            format!("--listen-client-urls={}", url(client)),
            format!("--advertise-client-urls={}", url(client)),
            format!("--listen-peer-urls={}", url(peer)),
            format!("--initial-advertise-peer-urls={}", url(peer)),
            format!("--initial-cluster={}", members.join(",")),
            format!("--initial-cluster-token=trireme-{}", self.instance.id),
            format!("--cert-file={}", cert.display()),
            format!("--key-file={}", key.display()),
            format!("--trusted-ca-file={}", authority.display()),
            "--client-cert-auth=true".to_owned(),
            format!("--peer-cert-file={}", cert.display()),
            format!("--peer-key-file={}", key.display()),
            format!("--peer-trusted-ca-file={}", authority.display()),
            format!("--listen-metrics-urls=http://127.0.0.1:{health}"),
        ];
        arguments.extend(self.bus(&pair)?);
        Ok(self.process(&format!("store-{n}"), "store", arguments, Ready::Http(LOOPBACK, health)))
    }

    pub(crate) fn apiserver(&self) -> anyhow::Result<Process> {
        let port = self.ports.get("apiserver")?;
        let pair = |identity: &Identity| self.pki.issue(identity);
        let serving = pair(&apiserver_identity(self.instance))?;
        let store = pair(&Identity::apiserver_store_client())?;
        let kubelet = pair(&Identity::apiserver_kubelet_client())?;
        let cluster = self.pki.authority_file(AuthorityName::Cluster);
        let stores = (1..=self.instance.store_members)
            .map(|n| Ok(format!("https://127.0.0.1:{}", self.ports.get(&store_port(n, ""))?)))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let mut arguments = vec![
            format!("--etcd-servers={}", stores.join(",")),
            format!("--etcd-cafile={}", self.pki.authority_file(AuthorityName::Store).display()),
            format!("--etcd-certfile={}", store.cert.display()),
            format!("--etcd-keyfile={}", store.key.display()),
            "--bind-address=0.0.0.0".to_owned(),
            format!("--secure-port={port}"),
            format!("--resources-port={}", self.ports.get("resources")?),
            format!("--advertise-address={}", self.instance.host_address()),
            format!("--tls-cert-file={}", serving.cert.display()),
            format!("--tls-private-key-file={}", serving.key.display()),
            format!("--client-ca-file={}", cluster.display()),
            format!("--token-auth-file={}", self.pki.token_file().display()),
            format!("--service-account-key-file={}", self.pki.service_account_public_key().display()),
            format!("--service-account-signing-key-file={}", self.pki.service_account_key().display()),
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
            "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--kubelet-preferred-address-types=InternalIP,Hostname".to_owned(),
            format!("--kubelet-client-certificate={}", kubelet.cert.display()),
            format!("--kubelet-client-key={}", kubelet.key.display()),
            format!("--kubelet-certificate-authority={}", cluster.display()),
            format!("--requestheader-client-ca-file={}", self.pki.authority_file(AuthorityName::FrontProxy).display()),
            "--requestheader-allowed-names=front-proxy-client".to_owned(),
            "--requestheader-username-headers=X-Remote-User".to_owned(),
            "--requestheader-group-headers=X-Remote-Group".to_owned(),
            "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
            format!("--encryption-provider-config={}", self.pki.encryption_config().display()),
        ];
        arguments.extend(self.bus(&store)?);
        Ok(self.process("apiserver", "apiserver", arguments, Ready::Https(port, cluster)))
    }

    pub(crate) fn controllers(&self) -> anyhow::Result<Process> {
        let port = self.ports.get("controllers")?;
        let mut arguments = self.client(&Identity::controllers(), LOOPBACK)?;
        arguments.extend([
            "--use-service-account-credentials=true".to_owned(),
            "--allocate-node-cidrs=true".to_owned(),
            "--cluster-cidr=10.244.0.0/16".to_owned(),
            "--node-monitor-grace-period=40s".to_owned(),
            format!("--root-ca-file={}", self.pki.authority_file(AuthorityName::Cluster).display()),
            format!("--health-bind-address=127.0.0.1:{port}"),
        ]);
        Ok(self.process("controllers", "controllers", arguments, Ready::Http(LOOPBACK, port)))
    }

    pub(crate) fn scheduler(&self) -> anyhow::Result<Process> {
        let port = self.ports.get("scheduler")?;
        let mut arguments = self.client(&Identity::scheduler(), LOOPBACK)?;
        arguments.push(format!("--health-bind-address=127.0.0.1:{port}"));
        Ok(self.process("scheduler", "scheduler", arguments, Ready::Http(LOOPBACK, port)))
    }

    /// How a component reaches the API server at `host`: its kubeconfig and the gRPC door.
    pub(crate) fn client(&self, identity: &Identity, host: Ipv4Addr) -> anyhow::Result<Vec<String>> {
        let kubeconfig = crate::pki::component(self.pki, &self.state.pki(), &self.server(host)?, identity)?;
        Ok(vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--resources-endpoint={}", self.resources(host)?),
        ])
    }
}

/// The API server, named by every address that this machine and the nodes reach it at.
pub(crate) fn apiserver_identity(instance: &Instance) -> Identity {
    Identity::apiserver(&[instance.host_address().to_string()], "10.96.0.1", "cluster.local")
}
