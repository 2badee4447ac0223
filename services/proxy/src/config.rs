//! Flags: kube-proxy's, and the name of the instance.

use std::time::Duration;

use clap::Parser;
use trireme_client::ClientArgs;
use trireme_service::CommonArgs;
use trireme_service::args::parse_duration;

use crate::Error;
use crate::cidr::Cidr;
use crate::plan::{NodePorts, Options};

/// Services on a node, as nftables rules.
#[derive(Clone, Debug, Parser)]
#[command(name = "trireme-proxy", version)]
pub struct Args {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    /// Name of this node
    #[arg(long, value_name = "NAME")]
    pub(crate) hostname_override: Option<String>,
    /// How Services are made: nftables
    #[arg(long, value_name = "MODE", default_value = "nftables")]
    pub(crate) proxy_mode: String,
    /// Ranges of the pods' addresses, by comma: traffic to a cluster IP from outside of them is masqueraded
    #[arg(long, value_name = "CIDRS", value_delimiter = ',')]
    pub(crate) cluster_cidr: Vec<String>,
    /// Addresses of this node that serve node ports: CIDRs by comma, or "primary" for the Node's own addresses
    #[arg(long, value_name = "CIDRS", value_delimiter = ',', default_value = "primary")]
    pub(crate) nodeport_addresses: Vec<String>,
    /// Bit of the packet mark that asks for masquerading
    #[arg(long, value_name = "BIT", default_value_t = 14)]
    pub(crate) nftables_masquerade_bit: u8,
    /// Masquerade all traffic to cluster IPs
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub(crate) masquerade_all: bool,
    /// Shortest time between two changes of the rules
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = parse_duration)]
    pub(crate) nftables_min_sync_period: Duration,
    /// How often the rules are compared with what they should be
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    pub(crate) nftables_sync_period: Duration,
    /// Address of the health page
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:10256")]
    pub(crate) healthz_bind_address: String,
    /// The table's name is kube-proxy, or kube-proxy-SUFFIX: instances that share a network namespace differ in it
    #[arg(long, value_name = "SUFFIX", default_value = "")]
    pub(crate) table_suffix: String,
    /// How old the cause of a change may be for the change to belong to its trace
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_duration)]
    pub(crate) trace_window: Duration,
    /// Remove the rules and end
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub(crate) cleanup: bool,
}

impl Args {
    /// The flags that the harness reads.
    #[must_use]
    pub fn common(&self) -> &CommonArgs {
        &self.common
    }

    /// Whether the flags make sense together, to be asked before anything is started.
    ///
    /// # Errors
    /// What is wrong with which flag.
    pub fn check(&self) -> Result<(), Error> {
        self.options().map(drop)
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

    /// The options of the planner.
    pub(crate) fn options(&self) -> Result<Options, Error> {
        if self.proxy_mode != "nftables" {
            return Err(Error::Mode(self.proxy_mode.clone()));
        }
        if self.nftables_masquerade_bit > 31 {
            let value = self.nftables_masquerade_bit.to_string();
            return Err(Error::Flag { flag: "nftables-masquerade-bit", value, reason: "must be 0 to 31".to_owned() });
        }
        if !self.table_suffix.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
            let reason = "letters, digits, - and _ only".to_owned();
            return Err(Error::Flag { flag: "table-suffix", value: self.table_suffix.clone(), reason });
        }
        let node_ports = if self.nodeport_addresses == ["primary"] {
            NodePorts::Primary
        } else {
            NodePorts::Within(cidrs("nodeport-addresses", &self.nodeport_addresses)?)
        };
        Ok(Options {
            table: match self.table_suffix.as_str() {
                "" => "kube-proxy".to_owned(),
                suffix => format!("kube-proxy-{suffix}"),
            },
            masquerade_mark: 1 << self.nftables_masquerade_bit,
            masquerade_all: self.masquerade_all,
            cluster_cidrs: cidrs("cluster-cidr", &self.cluster_cidr)?,
            node_ports,
        })
    }
}

/// The IPv4 ones of a list of ranges.
fn cidrs(flag: &'static str, values: &[String]) -> Result<Vec<Cidr>, Error> {
    let mut out = Vec::new();
    for value in values.iter().filter(|value| !value.is_empty() && !value.contains(':')) {
        out.push(value.parse().map_err(|reason| Error::Flag { flag, value: value.clone(), reason })?);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(flags: &[&str]) -> Result<Options, Error> {
        Args::parse_from(std::iter::once("trireme-proxy").chain(flags.iter().copied())).options()
    }

    #[test]
    fn flags() {
        let made =
            options(&["--cluster-cidr=10.244.0.0/16,fd00::/64", "--table-suffix=n1", "--masquerade-all=true"]).unwrap();
        assert_eq!(made.table, "kube-proxy-n1");
        assert_eq!(made.cluster_cidrs.len(), 1);
        assert_eq!(made.masquerade_mark, 0x4000);
        assert!(made.masquerade_all);
        assert_eq!(made.node_ports, NodePorts::Primary);
        assert_eq!(options(&[]).unwrap().table, "kube-proxy");
        let within = options(&["--nodeport-addresses=10.0.0.0/8"]).unwrap();
        assert!(matches!(within.node_ports, NodePorts::Within(cidrs) if cidrs.len() == 1));
    }

    #[test]
    fn what_is_refused() {
        let error = options(&["--proxy-mode=ipvs"]).unwrap_err().to_string();
        assert!(error.starts_with("--proxy-mode=ipvs is not available"), "{error}");
        assert!(options(&["--cluster-cidr=10.244.0.0"]).is_err());
        assert!(options(&["--nftables-masquerade-bit=32"]).is_err());
        assert!(options(&["--table-suffix=a b"]).is_err());
    }
}
