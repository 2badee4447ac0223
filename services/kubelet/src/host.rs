//! What all Pods of a node share. Everything in here is immutable or has one owner elsewhere.

use crate::admission::{self, sysctls::Allowlist};
use crate::api::Api;
use crate::cgroup::Cgroups;
use crate::config::Config;
use crate::cri::Cri;
use crate::pod::dns::Resolver;
use crate::pod::fields::Surroundings;
use crate::pod::images::Puller;
use crate::pod::report::Reporter;
use crate::volumes::VolumeRoot;
use k8s_openapi::api::core::v1::Service;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::watch;
use trireme_client::Informer;

/// What is known of the machine when the kubelet starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    /// Addresses of the node, the first one first.
    pub ips: Vec<String>,
    /// CPUs, in thousandths.
    pub milli_cpu: i64,
    /// Bytes of memory.
    pub memory: i64,
    /// Bytes of the file system below `--root-dir`.
    pub storage: i64,
    /// What Pods may use of these.
    pub allocatable: Allocatable,
}

/// What is left for Pods.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allocatable {
    /// CPUs, in thousandths.
    pub milli_cpu: i64,
    /// Bytes of memory.
    pub memory: i64,
    /// Bytes of disk.
    pub storage: i64,
    /// Pods.
    pub pods: i64,
}

/// Is the Pod network up? The runtime's own words when it is not.
pub type Network = Result<(), String>;

/// What the runtime says that it can do; older ones say nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Features {
    /// It knows `supplementalGroupsPolicy`.
    pub groups_policy: bool,
    /// Handlers that make mounts read-only with all below them.
    pub read_only_below: BTreeSet<String>,
}

/// The node, as Pods see it.
pub struct Host {
    /// Flags and configuration.
    pub config: Config,
    /// The runtime.
    pub cri: Cri,
    /// The API server.
    pub api: Api,
    /// Folders of Pods.
    pub volumes: VolumeRoot,
    /// Cgroups of Pods.
    pub cgroups: Cgroups,
    /// Names.
    pub resolver: Resolver,
    /// Images.
    pub puller: Puller,
    /// The machine.
    pub machine: Machine,
    /// All services of the cluster, for environment variables; none when standing alone.
    pub services: Option<Informer<Service>>,
    /// Published by the node's status loop.
    pub network: watch::Receiver<Network>,
    /// What the runtime can do; published with its status.
    pub features: watch::Receiver<Features>,
    /// Sysctls that Pods may set.
    pub sysctls: Allowlist,
    /// The kernel confines by AppArmor.
    pub apparmor: bool,
    /// Writes statuses.
    pub reporter: Reporter,
}

impl Host {
    /// What of this node a new Pod is judged by.
    pub fn place(&self) -> admission::Place<'_> {
        admission::Place {
            allocatable: &self.machine.allocatable,
            sysctls: &self.sysctls,
            apparmor: self.apparmor,
            groups_policy: self.features.borrow().groups_policy,
        }
    }

    /// The services, once they are known.
    pub async fn services(&self) -> Vec<Arc<Service>> {
        match &self.services {
            Some(informer) => {
                informer.synced().await;
                informer.store().list()
            }
            None => Vec::new(),
        }
    }

    /// What fields of the downward API are made of.
    pub fn surroundings(&self, pod_ips: &[String]) -> Surroundings {
        Surroundings {
            node_ips: self.machine.ips.clone(),
            pod_ips: pod_ips.to_vec(),
            node_milli_cpu: self.machine.allocatable.milli_cpu,
            node_memory: self.machine.allocatable.memory,
            node_storage: self.machine.allocatable.storage,
        }
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("machine", &self.machine).finish_non_exhaustive()
    }
}
