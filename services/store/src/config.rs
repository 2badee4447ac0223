//! Flags: etcd's names and defaults.
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Parser};
use sha2::{Digest, Sha256};
use trireme_bus::BusArgs;
use trireme_service::{CommonArgs, args};
use url::Url;

use crate::error::{Error, Result};
use crate::raft::Member;

/// The store: keeps the cluster's data, speaks etcd's v3 API.
#[derive(Debug, Clone, Parser)]
#[command(name = "trireme-store", version)]
pub struct Config {
    /// This member's name
    #[arg(long, default_value = "default")]
    pub name: String,
    /// Data directory; <name>.store by default
    #[arg(long)]
    pub data_dir: Option<PathBuf>,
    /// Where clients are served
    #[arg(long, value_delimiter = ',', default_value = "http://localhost:2379")]
    pub listen_client_urls: Vec<Url>,
    /// Where clients reach this member; the listening addresses by default
    #[arg(long, value_delimiter = ',')]
    pub advertise_client_urls: Vec<Url>,
    /// Where other members are served
    #[arg(long, value_delimiter = ',', default_value = "http://localhost:2380")]
    pub listen_peer_urls: Vec<Url>,
    /// Where other members reach this one
    #[arg(long, value_delimiter = ',', default_value = "http://localhost:2380")]
    pub initial_advertise_peer_urls: Vec<Url>,
    /// The members that a new cluster begins with: name=url, separated by commas
    #[arg(long)]
    pub initial_cluster: Option<String>,
    /// Tells clusters apart that begin with the same members
    #[arg(long, default_value = "etcd-cluster")]
    pub initial_cluster_token: String,
    /// Taken for compatibility; members are fixed
    #[arg(long, default_value = "new", value_parser = ["new", "existing"])]
    pub initial_cluster_state: String,
    /// Certificate for clients
    #[arg(long)]
    pub cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long)]
    pub key_file: Option<PathBuf>,
    /// Clients have to show a certificate of --trusted-ca-file
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, action = ArgAction::Set)]
    pub client_cert_auth: bool,
    /// CA of clients' certificates
    #[arg(long)]
    pub trusted_ca_file: Option<PathBuf>,
    /// Certificate between members, for both sides
    #[arg(long)]
    pub peer_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long)]
    pub peer_key_file: Option<PathBuf>,
    /// Members have to show a certificate of --peer-trusted-ca-file
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, action = ArgAction::Set)]
    pub peer_client_cert_auth: bool,
    /// CA of members' certificates
    #[arg(long)]
    pub peer_trusted_ca_file: Option<PathBuf>,
    /// Where /metrics, /livez and /readyz are served, without TLS
    #[arg(long, value_delimiter = ',')]
    pub listen_metrics_urls: Vec<Url>,
    /// Milliseconds between signs of life of the leader
    #[arg(long, default_value_t = 100)]
    pub heartbeat_interval: u64,
    /// Milliseconds after which a silent leader is replaced
    #[arg(long, default_value_t = 1000)]
    pub election_timeout: u64,
    /// Bytes of data from which on writes are refused; 0: 2 GiB
    #[arg(long, default_value_t = 0)]
    pub quota_backend_bytes: u64,
    /// How often idle watches that asked for it are told how far they are
    #[arg(long, default_value = "10m", value_parser = args::parse_duration)]
    pub watch_progress_notify_interval: Duration,
    /// How the bus is reached
    #[command(flatten)]
    pub bus: BusArgs,
    /// Flags of every service
    #[command(flatten)]
    pub common: CommonArgs,
}

/// The cluster as the flags found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cluster {
    /// Its id.
    pub id: u64,
    /// This member's id.
    pub me: u64,
    /// All members.
    pub members: BTreeMap<u64, Member>,
}

fn id_of(parts: &[&str]) -> u64 {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let mut id = [0; 8];
    id.copy_from_slice(&hash.finalize()[..8]);
    // 0 means "none" in etcd's API.
    u64::from_be_bytes(id).max(1)
}

/// How a URL is written in ids and records: without the slash that parsing adds.
fn text(url: &Url) -> String {
    url.as_str().trim_end_matches('/').to_owned()
}

impl Config {
    /// The data directory.
    pub(crate) fn data_dir(&self) -> PathBuf {
        self.data_dir.clone().unwrap_or_else(|| PathBuf::from(format!("{}.store", self.name)))
    }

    /// Where clients reach this member.
    pub(crate) fn client_urls(&self) -> Vec<String> {
        let urls =
            if self.advertise_client_urls.is_empty() { &self.listen_client_urls } else { &self.advertise_client_urls };
        urls.iter().map(text).collect()
    }

    /// Bytes of data that are allowed.
    pub(crate) fn quota(&self) -> usize {
        usize::try_from(self.quota_backend_bytes).ok().filter(|q| *q > 0).unwrap_or(2 << 30)
    }

    /// The shortest TTL of a lease: one and a half election timeouts, so that a change of leaders ends none.
    pub(crate) fn min_ttl(&self) -> i64 {
        (self.election_timeout * 3 / 2).div_ceil(1000) as i64
    }

    /// Works out the members and everyone's id.
    pub(crate) fn cluster(&self) -> Result<Cluster> {
        let mut named: BTreeMap<String, Vec<String>> = BTreeMap::new();
        match &self.initial_cluster {
            None => {
                named.insert(self.name.clone(), self.initial_advertise_peer_urls.iter().map(text).collect());
            }
            Some(list) => {
                for part in list.split(',').filter(|p| !p.is_empty()) {
                    let (name, url) = part
                        .split_once('=')
                        .ok_or_else(|| Error::Config(format!("--initial-cluster: {part}: not name=url")))?;
                    let url = Url::parse(url).map_err(|e| Error::Config(format!("--initial-cluster: {url}: {e}")))?;
                    named.entry(name.to_owned()).or_default().push(text(&url));
                }
            }
        }
        let token = self.initial_cluster_token.as_str();
        let mut members = BTreeMap::new();
        let mut me = None;
        for (name, mut peer_urls) in named {
            peer_urls.sort();
            let mut parts: Vec<&str> = peer_urls.iter().map(String::as_str).collect();
            parts.push(token);
            let id = id_of(&parts);
            if name == self.name {
                me = Some(id);
            }
            let member = Member { name: name.clone(), peer_urls, client_urls: Vec::new() };
            if members.insert(id, member).is_some() {
                return Err(Error::Config(format!("--initial-cluster: {name} has another member's URL")));
            }
        }
        let me = me.ok_or_else(|| Error::Config(format!("--initial-cluster does not have --name {}", self.name)))?;
        let ids: Vec<String> = members.keys().map(|id| format!("{id:x}")).collect();
        let mut parts: Vec<&str> = ids.iter().map(String::as_str).collect();
        parts.push(token);
        Ok(Cluster { id: id_of(&parts), me, members })
    }
}
