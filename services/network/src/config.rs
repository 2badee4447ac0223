//! Flags.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use trireme_client::ClientArgs;
use trireme_service::CommonArgs;
use trireme_service::args::parse_duration;

use crate::Error;
use crate::agent::check_plugins;
use crate::plan::{Cidr, Settings};

/// The longest name of a network interface.
const LONGEST_INTERFACE: usize = 15;

/// The pod network of a node.
#[derive(Clone, Debug, Parser)]
#[command(name = "trireme-network", version)]
pub struct Args {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    /// Name of this node
    #[arg(long, value_name = "NAME")]
    pub(crate) hostname_override: Option<String>,
    /// Where the container runtime looks for network configurations
    #[arg(long, value_name = "DIR", default_value = "/etc/cni/net.d")]
    pub(crate) cni_conf_dir: PathBuf,
    /// Where the CNI plugins are
    #[arg(long, value_name = "DIR", default_value = "/usr/lib/cni")]
    pub(crate) cni_bin_dir: PathBuf,
    /// Where the addresses given to Pods are kept
    #[arg(long, value_name = "DIR", default_value = "/var/lib/cni/networks")]
    pub(crate) ipam_dir: PathBuf,
    /// Name of the bridge that Pods are connected to; by default trireme, or trireme-INSTANCE
    #[arg(long, value_name = "NAME")]
    pub(crate) bridge: Option<String>,
    /// Tells apart the agents that share a machine: part of the names of the network, the bridge and the rules
    #[arg(long, value_name = "ID", default_value = "")]
    pub(crate) instance: String,
    /// Range of all pods' addresses: traffic from a Pod to anything else is masqueraded. By default, the nodes' ranges
    #[arg(long, value_name = "CIDR")]
    pub(crate) cluster_cidr: Option<String>,
    /// Largest packet of a Pod; by default, as of the interface that has the node's address
    #[arg(long, value_name = "BYTES")]
    pub(crate) mtu: Option<u32>,
    /// How often everything is compared with what it should be
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    pub(crate) sync_period: Duration,
    /// How old the cause of a change may be for the change to belong to its trace
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_duration)]
    pub(crate) trace_window: Duration,
    /// Remove the network, and what its Pods left of it, and end
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub(crate) cleanup: bool,
}

impl Args {
    /// The flags that the harness reads.
    #[must_use]
    pub fn common(&self) -> &CommonArgs {
        &self.common
    }

    /// Whether the flags make sense and the plugins are there, to be asked before anything is started.
    ///
    /// # Errors
    /// What is wrong with which flag, or which plugin is missing.
    pub fn check(&self) -> Result<(), Error> {
        self.settings()?;
        if self.cleanup { Ok(()) } else { check_plugins(&self.cni_bin_dir) }
    }

    /// This node's name: as given, else the host's in lower case.
    ///
    /// # Errors
    /// When neither says one.
    pub fn node_name(&self) -> Result<String, Error> {
        match &self.hostname_override {
            Some(name) => Ok(name.clone()),
            None => Ok(trireme_service::hostname()?.to_ascii_lowercase()),
        }
    }

    /// The settings of the planner.
    pub(crate) fn settings(&self) -> Result<Settings, Error> {
        let word = |flag: &'static str, value: &str, longest: usize| {
            let good = value.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
            if good && value.len() <= longest {
                Ok(value.to_owned())
            } else {
                let reason = format!("at most {longest} letters, digits, - and _");
                Err(Error::Flag { flag, value: value.to_owned(), reason })
            }
        };
        let instance = word("instance", &self.instance, 63)?;
        let name = if instance.is_empty() { "trireme".to_owned() } else { format!("trireme-{instance}") };
        let bridge = match &self.bridge {
            Some(bridge) => bridge.clone(),
            // The kernel's limit; --bridge gives another one where the start of two names is the same.
            None => name.chars().take(LONGEST_INTERFACE).collect(),
        };
        let cluster_cidr = self.cluster_cidr.as_deref().filter(|value| !value.is_empty()).map(|value| {
            let first = value.split(',').find(|range| !range.contains(':')).unwrap_or(value);
            first.parse::<Cidr>().map_err(|reason| Error::Flag {
                flag: "cluster-cidr",
                value: value.to_owned(),
                reason,
            })
        });
        Ok(Settings {
            bridge: word("bridge", &bridge, LONGEST_INTERFACE)?,
            name,
            cluster_cidr: cluster_cidr.transpose()?,
            ipam_dir: self.ipam_dir.clone(),
            node_name: self.node_name()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(flags: &[&str]) -> Result<Settings, Error> {
        Args::parse_from(std::iter::once("trireme-network").chain(flags.iter().copied())).settings()
    }

    #[test]
    fn names() {
        let plain = settings(&[]).unwrap();
        assert_eq!((plain.name.as_str(), plain.bridge.as_str()), ("trireme", "trireme"));
        let instance = settings(&["--instance=0123456789abcdef", "--cluster-cidr=10.244.0.0/16,fd00::/56"]).unwrap();
        assert_eq!((instance.name.as_str(), instance.bridge.as_str()), ("trireme-0123456789abcdef", "trireme-0123456"));
        assert_eq!(instance.cluster_cidr.unwrap().to_string(), "10.244.0.0/16");
        assert!(settings(&["--bridge=a-name-that-is-too-long"]).is_err());
        assert!(settings(&["--instance=../x"]).is_err());
        assert!(settings(&["--cluster-cidr=10.244.0.0"]).is_err());
    }
}
