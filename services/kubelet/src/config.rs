//! Flags, and upstream's KubeletConfiguration.

mod unread;

use crate::cgroup::{self, Driver};
use crate::error::{Error, Result};
use crate::pod::pulled::Verification;
use crate::thresholds::Thresholds;
use clap::Parser;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use trireme_client::ClientArgs;
use trireme_service::CommonArgs;
use trireme_service::args::parse_duration;

/// Flags of the kubelet: upstream's names and defaults.
#[derive(Debug, Clone, Parser)]
#[command(name = "trireme-kubelet", version, about = "Runs the Pods of a node over CRI v1")]
pub struct Flags {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub common: CommonArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub client: ClientArgs,
    /// Socket of the container runtime
    #[arg(long, value_name = "ENDPOINT")]
    pub container_runtime_endpoint: Option<String>,
    /// Name of the node; the host's name by default
    #[arg(long, value_name = "NAME")]
    pub hostname_override: Option<String>,
    /// Address of the node; by default that of the interface with the default route
    #[arg(long, value_name = "IP")]
    pub node_ip: Option<String>,
    /// Labels to register the node with
    #[arg(long, value_name = "K=V,…", value_delimiter = ',')]
    pub node_labels: Vec<String>,
    /// Taints to register the node with, as key=value:effect
    #[arg(long, value_name = "TAINT,…", value_delimiter = ',')]
    pub register_with_taints: Vec<String>,
    /// The cloud's name of the node
    #[arg(long, value_name = "ID")]
    pub provider_id: Option<String>,
    /// Folder of Pods and their volumes
    #[arg(long, value_name = "DIR", default_value = "/var/lib/kubelet")]
    pub root_dir: PathBuf,
    /// Folder of logs of Pods
    #[arg(long, value_name = "DIR")]
    pub pod_log_dir: Option<PathBuf>,
    /// Folder (or file) of manifests of static Pods
    #[arg(long, value_name = "PATH")]
    pub pod_manifest_path: Option<PathBuf>,
    /// Cgroup below which those of Pods are made
    #[arg(long, value_name = "PATH")]
    pub cgroup_root: Option<String>,
    /// Who makes cgroups: cgroupfs or systemd
    #[arg(long, value_name = "NAME")]
    pub cgroup_driver: Option<String>,
    /// Address to serve at
    #[arg(long, value_name = "IP")]
    pub address: Option<String>,
    /// Port to serve at
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Port of /healthz for everybody; 0: none
    #[arg(long, value_name = "PORT")]
    pub healthz_port: Option<u16>,
    /// Address of /healthz for everybody
    #[arg(long, value_name = "IP")]
    pub healthz_bind_address: Option<IpAddr>,
    /// Certificate to serve with; without one a certificate is made that nobody knows
    #[arg(long, value_name = "FILE")]
    pub tls_cert_file: Option<PathBuf>,
    /// Key of that certificate
    #[arg(long, value_name = "FILE")]
    pub tls_private_key_file: Option<PathBuf>,
    /// Certificate authorities of clients
    #[arg(long, value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,
    /// Addresses of the cluster's DNS
    #[arg(long, value_name = "IP,…", value_delimiter = ',')]
    pub cluster_dns: Vec<String>,
    /// Domain of the cluster
    #[arg(long, value_name = "DOMAIN")]
    pub cluster_domain: Option<String>,
    /// The node's own resolver configuration
    #[arg(long, value_name = "FILE")]
    pub resolv_conf: Option<PathBuf>,
    /// How often the node's status is looked at
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub node_status_update_frequency: Option<Duration>,
    /// How long the node's Lease holds; it is renewed four times as often
    #[arg(long, value_name = "SECONDS")]
    pub node_lease_duration_seconds: Option<i32>,
    /// How many Pods run at most
    #[arg(long, value_name = "N")]
    pub max_pods: Option<i64>,
    /// Below what of a resource the node is under pressure [default: memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%]
    #[arg(long, value_name = "SIGNAL<AMOUNT,…")]
    pub eviction_hard: Option<String>,
    /// How long a pressure of the node is told after it ended [default: 5m]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub eviction_pressure_transition_period: Option<Duration>,
    /// Sysctls (or beginnings of their names with a *) that Pods may set besides the safe ones
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub allowed_unsafe_sysctls: Vec<String>,
    /// Only for compatibility: the runtime knows its pause image
    #[arg(long, value_name = "IMAGE", hide = true)]
    pub pod_infra_container_image: Option<String>,
    /// Folder of volume plugins; none is run from there yet
    #[arg(long, value_name = "DIR", hide = true)]
    pub volume_plugin_dir: Option<PathBuf>,
}

/// The part of `kubelet.config.k8s.io/v1beta1` that is read; [`unread`] looks at the rest.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct File {
    kind: String,
    api_version: String,
    address: Option<String>,
    port: Option<u16>,
    healthz_port: Option<u16>,
    healthz_bind_address: Option<IpAddr>,
    static_pod_path: Option<PathBuf>,
    tls_cert_file: Option<PathBuf>,
    tls_private_key_file: Option<PathBuf>,
    authentication: Authentication,
    cgroup_root: Option<String>,
    cgroup_driver: Option<String>,
    container_runtime_endpoint: Option<String>,
    #[serde(rename = "clusterDNS")]
    cluster_dns: Vec<String>,
    cluster_domain: Option<String>,
    #[serde(rename = "resolvConf")]
    resolv_conf: Option<PathBuf>,
    node_status_update_frequency: Option<String>,
    node_lease_duration_seconds: Option<i32>,
    max_pods: Option<i64>,
    pod_logs_dir: Option<PathBuf>,
    serialize_image_pulls: Option<bool>,
    max_parallel_image_pulls: Option<usize>,
    container_log_max_size: Option<String>,
    container_log_max_files: Option<usize>,
    system_reserved: BTreeMap<String, String>,
    kube_reserved: BTreeMap<String, String>,
    eviction_hard: BTreeMap<String, String>,
    eviction_pressure_transition_period: Option<String>,
    #[serde(rename = "providerID")]
    provider_id: Option<String>,
    allowed_unsafe_sysctls: Vec<String>,
    image_pull_credentials_verification_policy: String,
    preloaded_images_verification_allowlist: Vec<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Authentication {
    x509: X509,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct X509 {
    #[serde(rename = "clientCAFile")]
    client_ca_file: Option<PathBuf>,
}

/// What was decided by flags over file over defaults.
#[derive(Debug, Clone)]
pub struct Config {
    /// The API server, if there is one.
    pub client: ClientArgs,
    /// Socket of the runtime.
    pub runtime_endpoint: String,
    /// Name of the node.
    pub node_name: String,
    /// Address of the node, if it was said.
    pub node_ip: Option<String>,
    /// Labels to register with.
    pub node_labels: BTreeMap<String, String>,
    /// Taints to register with: key, value, effect.
    pub taints: Vec<(String, String, String)>,
    /// The cloud's name of the node.
    pub provider_id: Option<String>,
    /// Folder of Pods.
    pub root_dir: PathBuf,
    /// Folder of logs.
    pub pod_log_dir: PathBuf,
    /// Folder of links to logs by container; upstream's when the logs are where upstream has them.
    pub container_log_links: Option<PathBuf>,
    /// Static Pods.
    pub manifests: Option<PathBuf>,
    /// Parent of all cgroups.
    pub cgroup_root: String,
    /// Who makes cgroups; none: ask the runtime.
    pub cgroup_driver: Option<Driver>,
    /// Where to serve.
    pub address: String,
    /// Where to serve.
    pub port: u16,
    /// Where `/healthz` is for everybody; port 0: nowhere.
    pub healthz: (IpAddr, u16),
    /// Certificate and key to serve with.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Authorities of clients.
    pub client_ca: Option<PathBuf>,
    /// The cluster's DNS.
    pub cluster_dns: Vec<String>,
    /// The cluster's domain.
    pub cluster_domain: String,
    /// The node's resolver.
    pub resolv_conf: PathBuf,
    /// How often the status is looked at.
    pub status_frequency: Duration,
    /// How long the Lease holds.
    pub lease_seconds: i32,
    /// How many Pods at most.
    pub max_pods: i64,
    /// How many pulls side by side.
    pub parallel_pulls: usize,
    /// A log that is longer is put aside.
    pub log_max_bytes: u64,
    /// So many files of logs are kept for a container.
    pub log_max_files: usize,
    /// What is not for Pods: by resource, reserved amounts and eviction thresholds.
    pub reserved: Vec<(String, String)>,
    /// Below what the node is under pressure.
    pub thresholds: Thresholds,
    /// How long a pressure is told after it ended.
    pub pressure_period: Duration,
    /// Sysctls that Pods may set besides the safe ones.
    pub allowed_unsafe_sysctls: Vec<String>,
    /// Which images a Pod must prove that it may have.
    pub verification: Verification,
}

impl Config {
    /// Decides.
    pub fn resolve(flags: &Flags) -> Result<Self> {
        let file = match &flags.common.config {
            Some(path) => read(path)?,
            None => File::default(),
        };
        let flags = flags.clone();
        let hostname = || nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned());
        let node_name = match flags.hostname_override {
            Some(name) => name,
            None => hostname()
                .map_err(|error| Error::Config(format!("the host has no name: {error}; use --hostname-override")))?,
        }
        .trim()
        .to_lowercase();
        let complaints = trireme_machinery::names::is_dns1123_subdomain(&node_name);
        if !complaints.is_empty() {
            return Err(Error::Config(format!(
                "the node's name \"{node_name}\" is not valid: {}",
                complaints.join("; ")
            )));
        }
        let default_logs = Path::new("/var/log/pods");
        let pod_log_dir = flags.pod_log_dir.or(file.pod_logs_dir).unwrap_or_else(|| default_logs.to_owned());
        let cert = flags.tls_cert_file.or(file.tls_cert_file);
        let key = flags.tls_private_key_file.or(file.tls_private_key_file);
        if cert.is_some() != key.is_some() {
            return Err(Error::Config(
                "--tls-cert-file and --tls-private-key-file are given both or not at all".into(),
            ));
        }
        let frequency = file.node_status_update_frequency.map(|text| parse_duration(&text)).transpose();
        let frequency = frequency.map_err(|error| Error::Config(format!("nodeStatusUpdateFrequency: {error}")))?;
        let driver = flags.cgroup_driver.or(file.cgroup_driver).map(|name| cgroup::driver(&name)).transpose()?;
        let bytes = |text: String| trireme_machinery::quantity::Quantity::parse(&text).map(|quantity| quantity.value());
        let log_max = file.container_log_max_size.map(bytes).transpose();
        let log_max = log_max.map_err(|error| Error::Config(format!("containerLogMaxSize: {error}")))?;
        let period = file.eviction_pressure_transition_period.map(|text| parse_duration(&text)).transpose();
        let period = period.map_err(|error| Error::Config(format!("evictionPressureTransitionPeriod: {error}")))?;
        let verification = Verification::of(
            &file.image_pull_credentials_verification_policy,
            &file.preloaded_images_verification_allowlist,
        )?;
        reservable("systemReserved", &file.system_reserved)?;
        reservable("kubeReserved", &file.kube_reserved)?;
        let thresholds = match &flags.eviction_hard {
            Some(text) => Thresholds::parse(text)?,
            None => Thresholds::of(file.eviction_hard)?,
        };
        Ok(Self {
            client: flags.client,
            runtime_endpoint: flags
                .container_runtime_endpoint
                .or(file.container_runtime_endpoint)
                .unwrap_or_else(|| "unix:///run/containerd/containerd.sock".into()),
            node_name,
            node_ip: flags.node_ip,
            node_labels: flags
                .node_labels
                .iter()
                .filter(|text| !text.is_empty())
                .map(|text| label(text))
                .collect::<Result<_>>()?,
            taints: flags
                .register_with_taints
                .iter()
                .filter(|text| !text.is_empty())
                .map(|text| taint(text))
                .collect::<Result<_>>()?,
            provider_id: flags.provider_id.or(file.provider_id),
            root_dir: flags.root_dir,
            container_log_links: (pod_log_dir == default_logs).then(|| PathBuf::from("/var/log/containers")),
            pod_log_dir,
            manifests: flags.pod_manifest_path.or(file.static_pod_path),
            cgroup_root: flags.cgroup_root.or(file.cgroup_root).unwrap_or_else(|| "/".into()),
            cgroup_driver: driver,
            address: flags.address.or(file.address).unwrap_or_else(|| "0.0.0.0".into()),
            port: flags.port.or(file.port).unwrap_or(10250),
            healthz: (
                flags.healthz_bind_address.or(file.healthz_bind_address).unwrap_or(Ipv4Addr::LOCALHOST.into()),
                flags.healthz_port.or(file.healthz_port).unwrap_or(10248),
            ),
            tls: cert.zip(key),
            client_ca: flags.client_ca_file.or(file.authentication.x509.client_ca_file),
            cluster_dns: if flags.cluster_dns.is_empty() { file.cluster_dns } else { flags.cluster_dns },
            cluster_domain: flags.cluster_domain.or(file.cluster_domain).unwrap_or_else(|| "cluster.local".into()),
            resolv_conf: flags.resolv_conf.or(file.resolv_conf).unwrap_or_else(|| "/etc/resolv.conf".into()),
            status_frequency: flags.node_status_update_frequency.or(frequency).unwrap_or(Duration::from_secs(10)),
            lease_seconds: flags.node_lease_duration_seconds.or(file.node_lease_duration_seconds).unwrap_or(40).max(1),
            max_pods: flags.max_pods.or(file.max_pods).unwrap_or(110),
            parallel_pulls: match file.serialize_image_pulls {
                Some(false) => file.max_parallel_image_pulls.unwrap_or(usize::MAX >> 4),
                _ => file.max_parallel_image_pulls.unwrap_or(1),
            },
            log_max_bytes: log_max.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(10 << 20),
            log_max_files: file.container_log_max_files.unwrap_or(5).max(2),
            reserved: file.system_reserved.into_iter().chain(file.kube_reserved).chain(thresholds.reserved()).collect(),
            thresholds,
            // As upstream takes it, none is the default.
            pressure_period: flags
                .eviction_pressure_transition_period
                .or(period)
                .filter(|period| !period.is_zero())
                .unwrap_or(Duration::from_secs(300)),
            allowed_unsafe_sysctls: match flags.allowed_unsafe_sysctls.is_empty() {
                true => file.allowed_unsafe_sysctls,
                false => flags.allowed_unsafe_sysctls,
            },
            verification,
        })
    }
}

/// Amounts only: a share of what would have to be said for each resource, and upstream takes none.
fn reservable(field: &str, amounts: &BTreeMap<String, String>) -> Result<()> {
    for (name, amount) in amounts {
        if !matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage" | "pid") {
            return Err(Error::Config(format!("{field}: cannot reserve \"{name}\" resource")));
        }
        trireme_machinery::quantity::Quantity::parse(amount).map_err(|error| {
            Error::Config(format!("{field}: failed to parse quantity \"{amount}\" for \"{name}\" resource: {error}"))
        })?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<File> {
    let text = std::fs::read_to_string(path).map_err(|error| Error::io("read", path, error))?;
    let file: File = serde_saphyr::from_str(&text)
        .map_err(|error| Error::Config(format!("--config={}: {error}", path.display())))?;
    // A file without a kind holds flags, which the harness has read.
    if file.kind.is_empty() {
        return Ok(File::default());
    }
    if file.kind != "KubeletConfiguration" || !file.api_version.starts_with("kubelet.config.k8s.io/") {
        return Err(Error::Config(format!(
            "--config={}: a KubeletConfiguration of kubelet.config.k8s.io/v1beta1 is wanted, not {} {}",
            path.display(),
            file.api_version,
            file.kind
        )));
    }
    let all: serde_json::Value = serde_saphyr::from_str(&text)
        .map_err(|error| Error::Config(format!("--config={}: {error}", path.display())))?;
    unread::check(path, &all)?;
    Ok(file)
}

fn label(text: &str) -> Result<(String, String)> {
    let pair = text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
    pair.ok_or_else(|| Error::Config(format!("--node-labels: \"{text}\" is not key=value")))
}

fn taint(text: &str) -> Result<(String, String, String)> {
    let bad = || Error::Config(format!("--register-with-taints: \"{text}\" is not key=value:effect"));
    let (key, effect) = text.rsplit_once(':').ok_or_else(bad)?;
    let (key, value) = key.split_once('=').unwrap_or((key, ""));
    if !matches!(effect, "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
        return Err(bad());
    }
    Ok((key.to_owned(), value.to_owned(), effect.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_win_over_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.yaml");
        std::fs::write(
            &path,
            "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\nmaxPods: 7\nport: 1\n\
             clusterDNS: [10.96.0.10]\ncontainerLogMaxSize: 1Mi\nnodeStatusUpdateFrequency: 3s\nunknownThing: {a: 1}\n",
        )
        .unwrap();
        let flags = Flags::parse_from([
            "x",
            "--config",
            path.to_str().unwrap(),
            "--port",
            "2",
            "--hostname-override",
            "N1",
            "--node-labels",
            "a=b,c=",
        ]);
        let config = Config::resolve(&flags).unwrap();
        assert_eq!((config.port, config.max_pods, config.node_name.as_str()), (2, 7, "n1"));
        assert_eq!((config.log_max_bytes, config.status_frequency), (1 << 20, Duration::from_secs(3)));
        assert_eq!(config.node_labels.len(), 2);
        assert_eq!(config.healthz, (Ipv4Addr::LOCALHOST.into(), 10248), "upstream's");
        let flags = Flags::parse_from(["x", "--hostname-override", "not_valid"]);
        assert!(Config::resolve(&flags).is_err());
    }

    fn of_file(text: &str, flags: &[&str]) -> Result<Config> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.yaml");
        let head = "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n";
        std::fs::write(&path, format!("{head}{text}")).unwrap();
        let given = ["x", "--hostname-override=n1", "--config", path.to_str().unwrap()];
        Config::resolve(&Flags::parse_from(given.iter().chain(flags)))
    }

    #[test]
    fn what_has_no_effect_is_not_taken_silently() {
        assert!(of_file("podPidsLimit: 100\n", &[]).unwrap_err().to_string().contains("podPidsLimit"));
        assert!(of_file("systemReserved: {cpu: 10%}\n", &[]).unwrap_err().to_string().contains("10%"));
        assert!(of_file("kubeReserved: {gpu: \"1\"}\n", &[]).is_err());
        assert!(of_file("imagePullCredentialsVerificationPolicy: Sometimes\n", &[]).is_err());
        let lone = of_file("", &["--tls-cert-file=/c"]).unwrap_err().to_string();
        assert!(lone.contains("--tls-private-key-file"), "{lone}");
        assert!(of_file("tlsPrivateKeyFile: /k\n", &[]).is_err());
        assert!(of_file("tlsPrivateKeyFile: /k\n", &["--tls-cert-file=/c"]).is_ok());
    }

    #[test]
    fn what_is_read() {
        let text =
            "allowedUnsafeSysctls: [net.core.somaxconn]\nevictionPressureTransitionPeriod: 30s\nproviderID: a://b\n";
        let config = of_file(text, &[]).unwrap();
        assert_eq!(config.allowed_unsafe_sysctls, ["net.core.somaxconn"]);
        assert_eq!((config.pressure_period, config.provider_id.as_deref()), (Duration::from_secs(30), Some("a://b")));
        let config = of_file("evictionPressureTransitionPeriod: 0s\n", &[]).unwrap();
        assert_eq!(config.pressure_period, Duration::from_secs(300), "upstream's default");
    }
}
