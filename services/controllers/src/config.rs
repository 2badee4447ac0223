//! Flags: kube-controller-manager's names and defaults, and a few of our own.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Parser};
use trireme_client::ClientArgs;
use trireme_service::args::parse_duration;
use trireme_service::{CommonArgs, ServingArgs};

/// The controller workers of a Trireme cluster.
#[derive(Debug, Clone, Parser)]
#[command(name = "trireme-controllers", version)]
pub struct Config {
    /// Shared flags.
    #[command(flatten)]
    pub common: CommonArgs,
    /// The way to the API server.
    #[command(flatten)]
    pub client: ClientArgs,
    /// Controllers to run: `*` for all that are on by default, `name` for one, `-name` for none of it.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "*", allow_hyphen_values = true)]
    pub controllers: Vec<String>,
    /// Address, certificate and clients of the pages.
    #[command(flatten)]
    pub serving: ServingArgs,
    /// Port of the pages; 0: none.
    #[arg(long, value_name = "PORT", default_value_t = 10257)]
    pub secure_port: u16,
    /// Range of pod addresses, from which each node gets its own.
    #[arg(long, value_name = "CIDR")]
    pub cluster_cidr: Option<String>,
    /// Give each node a part of the cluster's range.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value_t = false, action = ArgAction::Set)]
    pub allocate_node_cidrs: bool,
    /// Size of a node's range.
    #[arg(long, value_name = "BITS", default_value_t = 24)]
    pub node_cidr_mask_size: u8,
    /// A node that gave no sign of life for this long is not ready.
    #[arg(long, value_name = "DURATION", default_value = "50s", value_parser = parse_duration)]
    pub node_monitor_grace_period: Duration,
    /// How often nodes are looked at.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_duration)]
    pub node_monitor_period: Duration,
    /// How long a node may take to give its first sign of life.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    pub node_startup_grace_period: Duration,
    /// Nodes a second whose pods are evicted in a zone that is healthy.
    #[arg(long, value_name = "RATE", default_value_t = 0.1)]
    pub node_eviction_rate: f64,
    /// The same in a zone that is not, if it is large.
    #[arg(long, value_name = "RATE", default_value_t = 0.01)]
    pub secondary_node_eviction_rate: f64,
    /// A zone of more nodes is large.
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub large_cluster_size_threshold: usize,
    /// A zone is unhealthy when this part of its nodes is not ready.
    #[arg(long, value_name = "RATIO", default_value_t = 0.55)]
    pub unhealthy_zone_threshold: f64,
    /// So many pods that have ended are kept; 0 or less: all.
    #[arg(long, value_name = "N", default_value_t = 12500, allow_hyphen_values = true)]
    pub terminated_pod_gc_threshold: i64,
    /// Certificate authority that is published to every namespace.
    #[arg(long, value_name = "FILE")]
    pub root_ca_file: Option<PathBuf>,
    /// Key for tokens in Secrets (taken, not used yet: the API server signs tokens).
    #[arg(long, value_name = "FILE", hide = true)]
    pub service_account_private_key_file: Option<PathBuf>,
    /// Range of Service addresses (taken for compatibility: nodes are never given addresses of it).
    #[arg(long, value_name = "CIDR", hide = true)]
    pub service_cluster_ip_range: Option<String>,
    /// How often everything is looked at although nothing happened.
    #[arg(long, value_name = "DURATION", default_value = "12h", value_parser = parse_duration)]
    pub min_resync_period: Duration,
    /// How often namespaces that go away are looked at.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_duration)]
    pub namespace_sync_period: Duration,
    /// Reconciles at once, of each controller.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub concurrent_syncs: usize,
    /// Endpoints in a slice at most.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub max_endpoints_per_slice: usize,
    /// Each controller writes as its own service account of kube-system, for which upstream's roles are made.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value_t = true, action = ArgAction::Set)]
    pub use_service_account_credentials: bool,
    /// Work only while holding a claim; without it, this must be the only worker.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value_t = true, action = ArgAction::Set)]
    pub leader_elect: bool,
    /// Name of the claim record, a Lease in kube-system.
    #[arg(long, value_name = "NAME", default_value = "trireme-controllers-0")]
    pub leader_elect_resource_name: String,
    /// A worker that gave no sign of life for this long loses its claim.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    pub claim_duration: Duration,
    /// A reaction to something older is a trace of its own.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_duration)]
    pub trace_window: Duration,
}

/// Other names of controllers, by those they have here.
const ALIASES: [(&str, &str); 2] =
    [("persistentvolumeclaim-protection", "pvc-protection"), ("persistentvolume-protection", "pv-protection")];
/// How often a kubelet with the usual flags renews its Lease.
const RENEWAL: Duration = Duration::from_secs(10);

impl Config {
    /// What may be set wrong, though it can be done.
    pub(crate) fn doubt(&self) -> Option<String> {
        let grace = self.node_monitor_grace_period;
        (grace < RENEWAL * 2).then(|| {
            format!(
                "--node-monitor-grace-period={grace:?} is short: kubelets renew their Leases every {RENEWAL:?} unless \
                 they are told otherwise (--node-lease-duration-seconds), so that one late renewal makes a node not ready"
            )
        })
    }

    /// Whether a controller of this name runs.
    #[must_use]
    pub fn enabled(&self, name: &str) -> bool {
        let alias = ALIASES.iter().find(|(of, _)| *of == name).map(|(_, alias)| *alias);
        let is_it = |entry: &str| {
            entry == name
                || entry.strip_suffix("-controller") == Some(name)
                || alias.is_some_and(|alias| entry == alias)
        };
        if self.controllers.iter().filter_map(|entry| entry.strip_prefix('-')).any(is_it) {
            return false;
        }
        self.controllers.iter().any(|entry| entry == "*" || is_it(entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(flags: &[&str]) -> Config {
        Config::parse_from(std::iter::once("x").chain(flags.iter().copied()))
    }

    #[test]
    fn upstreams_flags_are_taken() {
        let config =
            parse(&["--allocate-node-cidrs=true", "--cluster-cidr=10.244.0.0/16", "--node-monitor-grace-period=40s"]);
        assert!(config.allocate_node_cidrs && config.leader_elect);
        assert_eq!(config.node_monitor_grace_period, Duration::from_secs(40));
        assert!(!parse(&["--leader-elect=false"]).leader_elect);
        assert_eq!(parse(&[]).node_monitor_grace_period, Duration::from_secs(50));
    }

    #[test]
    fn controllers_are_chosen_by_name() {
        assert!(parse(&[]).enabled("deployment"));
        assert!(!parse(&["--controllers=*,-deployment"]).enabled("deployment"));
        let one = parse(&["--controllers=garbage-collector-controller"]);
        assert!(one.enabled("garbage-collector") && !one.enabled("deployment"));
        for name in ["pvc-protection", "persistentvolumeclaim-protection-controller"] {
            let claims = "persistentvolumeclaim-protection";
            assert!(parse(&[&format!("--controllers={name}")]).enabled(claims));
            assert!(!parse(&[&format!("--controllers=*,-{name}")]).enabled(claims));
        }
    }

    #[test]
    fn a_grace_that_one_late_renewal_uses_up_is_doubted() {
        assert_eq!(parse(&[]).doubt(), None);
        assert_eq!(parse(&["--node-monitor-grace-period=20s"]).doubt(), None);
        assert!(parse(&["--node-monitor-grace-period=19s"]).doubt().is_some_and(|doubt| doubt.contains("=19s")));
    }
}
