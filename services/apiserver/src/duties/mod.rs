//! What every replica keeps up, idempotently.
//!
//! A [`Duty`] looks at what is there and makes it what it should be; running it twice, late or on every replica at once
//! gives the same. Each runs as a supervised task: once the watch cache is filled, then in its own rhythm, and soon again
//! after a failure. A duty's health check passes once it was done, or once it was tried where upstream's does not wait.
//!
//! | duty | what stays true |
//! |---|---|
//! | [`namespaces`] | the four namespaces of the system are there |
//! | [`roles`] | the default roles and bindings hold at least what they should ([`policy`] are the facts) |
//! | [`priority_classes`] | the two system classes |
//! | [`flow_control`] | priority levels and flow schemas |
//! | [`authentication_config`] | what extension API servers need to know to authenticate callers |
//! | [`identity`] | a Lease says that this replica lives; those of the dead go (two duties) |
//! | [`kubernetes_service`] | `default/kubernetes` points to the living replicas |
//! | [`service_cidr`] | the ranges of Services as an object |
//! | [`repair`] | every Service's addresses and node ports are recorded, and nothing else is |
//! | [`services`] | not a duty but its counterpart in writes: addresses and ports of Services |

pub mod authentication_config;
pub mod ensure;
pub mod flow_control;
pub mod identity;
pub mod kubernetes_service;
pub mod namespaces;
pub mod policy;
pub mod priority_classes;
pub mod repair;
pub mod roles;
pub mod service_cidr;
pub mod services;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use trireme_kinds::{Kind, Registry};
use trireme_machinery::status::Status;
use trireme_service::health::{Flag, Health, Scope};
use trireme_service::tasks::Tasks;

use crate::cache::Cache;
use crate::checks;
use crate::config::Config;
use crate::error::Error;
use crate::pipeline::{Companions, Objects};
use services::{AddressRange, Allocator, PortRange};

/// How soon a duty is tried again after it failed; doubled up to its own rhythm.
const FIRST_RETRY: Duration = Duration::from_millis(200);

/// Something that is kept up.
#[async_trait]
pub trait Duty: Send + Sync {
    /// Its health check, in the name that upstream has for the same work.
    fn check(&self) -> &'static str;

    /// After how long it is looked at again.
    fn rhythm(&self) -> Duration;

    /// Whether the server is not ready before it was done once.
    fn holds_readiness(&self) -> bool {
        true
    }

    /// Makes what is there what it should be.
    async fn run(&self) -> Result<(), Status>;
}

/// Everything that duties have in common.
#[derive(Clone)]
pub struct Surroundings {
    /// Reads and writes.
    pub objects: Arc<dyn Objects>,
    /// The kinds.
    pub registry: Arc<Registry>,
    /// The flags.
    pub config: Arc<Config>,
    /// The address that the cluster reaches this replica under.
    pub advertise: std::net::IpAddr,
    /// The port of HTTPS.
    pub port: u16,
    /// The watch cache.
    pub cache: Cache,
}

impl Surroundings {
    /// A kind that a duty needs.
    pub fn kind(&self, group: &str, plural: &str) -> Result<Arc<Kind>, Error> {
        let found = self.registry.by_resource(group, "v1", plural);
        found.ok_or_else(|| Error::Kind(plural.to_owned()))
    }
}

/// The allocator of Services' addresses and ports.
pub fn allocator(objects: Arc<dyn Objects>, registry: &Registry, config: &Config) -> Result<Arc<Allocator>, Error> {
    let ranges: Result<Vec<_>, _> =
        config.service_cluster_ip_range.iter().map(|range| AddressRange::parse(range)).collect();
    let ranges = ranges.map_err(|why| Error::Flag(format!("--service-cluster-ip-range: {why}")))?;
    let ports = PortRange::parse(&config.service_node_port_range);
    let ports = ports.map_err(|why| Error::Flag(format!("--service-node-port-range: {why}")))?;
    let allocator = Allocator::new(objects, registry, ranges, ports);
    allocator.map(Arc::new).ok_or_else(|| Error::Kind("services or of what they hold".into()))
}

/// A resource, and what goes along with its writes.
pub type Companionship = ((&'static str, &'static str), Arc<dyn Companions>);

/// What goes along with writes of which resource.
#[must_use]
pub fn companions(allocator: &Arc<Allocator>) -> Vec<Companionship> {
    vec![(("", "services"), allocator.clone())]
}

/// Starts all duties. `done` hears of each whenever it was done.
pub fn start<F>(
    around: &Surroundings,
    allocator: &Arc<Allocator>,
    tasks: &Tasks,
    health: &Health,
    done: F,
) -> Result<(), Error>
where
    F: Fn(&'static str) + Clone + Send + Sync + 'static,
{
    let keep = |duties: Vec<Arc<dyn Duty>>| {
        for duty in duties {
            let flag = health.flag(duty.check(), Scope::Live);
            let (cache, done) = (around.cache.clone(), done.clone());
            tasks.supervise(format!("duty {}", duty.check()), move || {
                keep_up(duty.clone(), cache.clone(), flag.clone(), done.clone())
            });
        }
    };
    // In the order in which upstream's health pages list them.
    let identity = identity::Identity::new(around)?;
    let burial = identity.burial();
    keep(vec![
        Arc::new(namespaces::Namespaces::new(around)?),
        Arc::new(authentication_config::AuthenticationConfig::new(around)?),
        Arc::new(identity),
        Arc::new(burial),
    ]);
    checks::filled(health, "poststarthook/storage-readiness", Scope::Live, &around.cache);
    keep(vec![
        Arc::new(repair::Repair::new(around, allocator)?),
        Arc::new(roles::Roles::new(around)?),
        Arc::new(priority_classes::PriorityClasses::new(around)?),
        Arc::new(flow_control::FlowControl::new(around)?),
        Arc::new(kubernetes_service::KubernetesService::new(around, allocator)?),
        Arc::new(service_cidr::ServiceCidr::new(around, allocator)?),
    ]);
    Ok(())
}

/// Does a duty again and again.
async fn keep_up(duty: Arc<dyn Duty>, cache: Cache, flag: Flag, done: impl Fn(&'static str)) {
    // Before, everything would look as if it were missing.
    if cache.heads().wait_for(|head| head.synced).await.is_err() {
        return;
    }
    let mut retry = FIRST_RETRY;
    loop {
        let outcome = duty.run().await;
        if outcome.is_ok() || !duty.holds_readiness() {
            flag.pass();
        }
        let pause = match outcome {
            Ok(()) => {
                done(duty.check());
                retry = FIRST_RETRY;
                duty.rhythm()
            }
            Err(status) => {
                tracing::warn!(duty = duty.check(), error = %status, "a duty could not be done");
                retry = (retry * 2).min(duty.rhythm());
                retry
            }
        };
        tokio::time::sleep(pause).await;
    }
}
