//! Flags: kube-apiserver's names and defaults, and three of our own.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Parser};
use trireme_bus::BusArgs;
use trireme_service::CommonArgs;
use trireme_service::args::parse_duration;

use crate::error::Error;

/// What the API server is started with.
#[derive(Debug, Clone, Parser)]
#[command(name = "trireme-apiserver", version, about = "Kubernetes API server")]
pub struct Config {
    /// Where the store's members serve clients, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "http://127.0.0.1:2379")]
    pub etcd_servers: Vec<String>,
    /// CA of the store.
    #[arg(long)]
    pub etcd_cafile: Option<PathBuf>,
    /// Our certificate for the store.
    #[arg(long)]
    pub etcd_certfile: Option<PathBuf>,
    /// Its key.
    #[arg(long)]
    pub etcd_keyfile: Option<PathBuf>,
    /// What all keys in the store begin with.
    #[arg(long, default_value = "/registry")]
    pub etcd_prefix: String,
    /// How many objects of a collection are deleted at a time.
    #[arg(long, default_value_t = 1)]
    pub delete_collection_workers: usize,
    /// How often old revisions are compacted; 0 switches it off.
    #[arg(long, default_value = "5m", value_parser = parse_duration)]
    pub etcd_compaction_interval: Duration,

    /// The address to serve HTTPS on.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED))]
    pub bind_address: IpAddr,
    /// The port to serve HTTPS on.
    #[arg(long, default_value_t = 6443)]
    pub secure_port: u16,
    /// The address under which other members of the cluster reach this server.
    #[arg(long)]
    pub advertise_address: Option<IpAddr>,
    /// Whether this server keeps itself in the endpoints of the kubernetes Service.
    #[arg(long, value_enum, default_value_t = EndpointReconciler::Lease)]
    pub endpoint_reconciler_type: EndpointReconciler,
    /// The serving certificate.
    #[arg(long)]
    pub tls_cert_file: Option<PathBuf>,
    /// Its key.
    #[arg(long)]
    pub tls_private_key_file: Option<PathBuf>,
    /// The CA whose client certificates are identities.
    #[arg(long)]
    pub client_ca_file: Option<PathBuf>,
    /// The port of the gRPC door; 0 lets the system choose.
    #[arg(long, default_value_t = 6444)]
    pub resources_port: u16,

    /// A CSV file of bearer tokens: token,user,uid,"group,group".
    #[arg(long)]
    pub token_auth_file: Option<PathBuf>,
    /// Whether callers without credentials are system:anonymous.
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub anonymous_auth: bool,
    /// Keys that service account tokens are verified with.
    #[arg(long)]
    pub service_account_key_file: Vec<PathBuf>,
    /// The key that service account tokens are signed with.
    #[arg(long)]
    pub service_account_signing_key_file: Option<PathBuf>,
    /// The issuer of service account tokens; the first signs.
    #[arg(long, value_delimiter = ',', default_value = "https://kubernetes.default.svc.cluster.local")]
    pub service_account_issuer: Vec<String>,
    /// Where the token keys are published; the issuer's own place when absent.
    #[arg(long)]
    pub service_account_jwks_uri: Option<String>,
    /// The longest life of a service account token; 0 is no limit.
    #[arg(long, default_value = "0s", value_parser = parse_duration)]
    pub service_account_max_token_expiration: Duration,
    /// Whether tokens of pods live longer than asked for, until old clients re-read them.
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub service_account_extend_token_expiration: bool,
    /// The audiences of the API server; the issuers when absent.
    #[arg(long, value_delimiter = ',')]
    pub api_audiences: Vec<String>,
    /// Who is asked whether a request is allowed.
    #[arg(long, value_delimiter = ',', default_value = "Node,RBAC")]
    pub authorization_mode: Vec<String>,

    /// The CA of front proxies.
    #[arg(long)]
    pub requestheader_client_ca_file: Option<PathBuf>,
    /// The common names that front proxies may have; any when empty.
    #[arg(long, value_delimiter = ',')]
    pub requestheader_allowed_names: Vec<String>,
    /// Headers with the user's name.
    #[arg(long, value_delimiter = ',')]
    pub requestheader_username_headers: Vec<String>,
    /// Headers with the user's uid.
    #[arg(long, value_delimiter = ',')]
    pub requestheader_uid_headers: Vec<String>,
    /// Headers with the user's groups.
    #[arg(long, value_delimiter = ',')]
    pub requestheader_group_headers: Vec<String>,
    /// What the names of headers with more about the user begin with.
    #[arg(long, value_delimiter = ',')]
    pub requestheader_extra_headers_prefix: Vec<String>,
    /// Our certificate towards aggregated API servers and webhooks.
    #[arg(long)]
    pub proxy_client_cert_file: Option<PathBuf>,
    /// Its key.
    #[arg(long)]
    pub proxy_client_key_file: Option<PathBuf>,

    /// Addresses of Services, one or two ranges.
    #[arg(long, value_delimiter = ',', default_value = "10.96.0.0/16")]
    pub service_cluster_ip_range: Vec<String>,
    /// Ports that Services may have on nodes.
    #[arg(long, default_value = "30000-32767")]
    pub service_node_port_range: String,

    /// Our certificate towards kubelets.
    #[arg(long)]
    pub kubelet_client_certificate: Option<PathBuf>,
    /// Its key.
    #[arg(long)]
    pub kubelet_client_key: Option<PathBuf>,
    /// The CA of the kubelets' serving certificates.
    #[arg(long)]
    pub kubelet_certificate_authority: Option<PathBuf>,
    /// Which of a node's addresses is dialled, best first.
    #[arg(long, value_delimiter = ',', default_value = "Hostname,InternalDNS,InternalIP,ExternalDNS,ExternalIP")]
    pub kubelet_preferred_address_types: Vec<String>,
    /// How long a kubelet may take to answer.
    #[arg(long, default_value = "5s", value_parser = parse_duration)]
    pub kubelet_timeout: Duration,

    /// Which resources are encrypted in the store, and how (an EncryptionConfiguration).
    #[arg(long)]
    pub encryption_provider_config: Option<PathBuf>,
    /// Admission plugins beside the default ones.
    #[arg(long, value_delimiter = ',')]
    pub enable_admission_plugins: Vec<String>,
    /// Default admission plugins that are left out.
    #[arg(long, value_delimiter = ',')]
    pub disable_admission_plugins: Vec<String>,
    /// Whether privileged containers are allowed.
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub allow_privileged: bool,
    /// Where audit events go, one JSON document a line; `-` is standard output.
    #[arg(long)]
    pub audit_log_path: Option<PathBuf>,
    /// Which requests are audited, and how fully.
    #[arg(long)]
    pub audit_policy_file: Option<PathBuf>,
    /// How long Events are kept.
    #[arg(long, default_value = "1h", value_parser = parse_duration)]
    pub event_ttl: Duration,
    /// How long a request may take that does not say.
    #[arg(long, default_value = "1m", value_parser = parse_duration)]
    pub request_timeout: Duration,
    /// The shortest time after which a watch is ended; each gets up to twice this.
    #[arg(long, default_value_t = 1800)]
    pub min_request_timeout: u64,
    /// How many reading requests are served at once.
    #[arg(long, default_value_t = 400)]
    pub max_requests_inflight: usize,
    /// How many writing requests are served at once.
    #[arg(long, default_value_t = 200)]
    pub max_mutating_requests_inflight: usize,

    /// How the bus is reached.
    #[command(flatten)]
    pub bus: BusArgs,
    /// How old a cause may be that a reaction still joins.
    #[arg(long, default_value = "10m", value_parser = parse_duration)]
    pub trace_window: Duration,

    /// Flags that every service has.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Who keeps the endpoints of the kubernetes Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum EndpointReconciler {
    /// Each server for itself, as long as its identity's Lease lives.
    Lease,
    /// Not this server.
    None,
}

// === impl Config ===

impl Config {
    /// Where HTTPS is served.
    pub fn rest_address(&self) -> SocketAddr {
        SocketAddr::new(self.bind_address, self.secure_port)
    }

    /// Refuses flags that ask for what is not there: taken and without effect, they would be a promise.
    pub fn check(&self) -> Result<(), Error> {
        let no_others = "there are neither aggregated API servers nor webhooks that would see it";
        let flags = [
            ("--proxy-client-cert-file", self.proxy_client_cert_file.is_some(), no_others),
            ("--proxy-client-key-file", self.proxy_client_key_file.is_some(), no_others),
            (
                "--audit-policy-file",
                self.audit_policy_file.is_some(),
                "all requests are audited, at the level Metadata",
            ),
        ];
        match flags.into_iter().find(|(_, given, _)| *given) {
            Some((flag, _, why)) => Err(Error::Flag(format!("{flag} has no effect here, leave it out: {why}"))),
            None => Ok(()),
        }
    }

    /// Where the gRPC door is.
    pub fn resources_address(&self) -> SocketAddr {
        SocketAddr::new(self.bind_address, self.resources_port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_without_effect_are_refused() {
        let refused = |flag: &str| Config::try_parse_from(["trireme-apiserver", flag]).unwrap().check().unwrap_err();
        for flag in ["--proxy-client-cert-file", "--proxy-client-key-file", "--audit-policy-file"] {
            let why = refused(&format!("{flag}=/tmp/x")).to_string();
            assert!(why.contains(flag) && !why.contains('\n'), "{why}");
        }
        Config::try_parse_from(["trireme-apiserver", "--audit-log-path=-"]).unwrap().check().unwrap();
    }

    #[test]
    fn flags_are_upstreams() {
        let config = Config::try_parse_from([
            "trireme-apiserver",
            "--etcd-servers=https://a:2379,https://b:2379",
            "--allow-privileged",
            "--anonymous-auth=false",
            "--authorization-mode=Node,RBAC",
            "--secure-port=0",
        ])
        .unwrap();
        assert_eq!(config.etcd_servers.len(), 2);
        assert!(config.allow_privileged && !config.anonymous_auth);
        assert_eq!(config.authorization_mode, ["Node", "RBAC"]);
        assert_eq!(config.service_cluster_ip_range, ["10.96.0.0/16"]);
    }
}
