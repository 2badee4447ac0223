//! Every Service's addresses are recorded, and no other address of ours is.
//!
//! Our own writes keep both together in one transaction; this mends what another API server, a restore or a hand at the
//! store left behind.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use trireme_kinds::Kind;
use trireme_machinery::meta;
use trireme_machinery::status::Status;

use super::services::{Allocator, MANAGED_BY, MANAGER};
use super::{Duty, Surroundings};
use crate::error::Error;
use crate::pipeline::{Context, Objects};

/// How old a record without a Service must be before it goes: its Service may be on the way to the cache.
const GRACE_SECONDS: i64 = 60;

/// The duty.
pub struct Repair {
    objects: Arc<dyn Objects>,
    allocator: Arc<Allocator>,
    services: Arc<Kind>,
    addresses: Arc<Kind>,
}

impl Repair {
    /// Keeps records and Services together.
    pub fn new(around: &Surroundings, allocator: &Arc<Allocator>) -> Result<Self, Error> {
        Ok(Self {
            objects: around.objects.clone(),
            allocator: allocator.clone(),
            services: around.kind("", "services")?,
            addresses: around.kind("networking.k8s.io", "ipaddresses")?,
        })
    }
}

#[async_trait]
impl Duty for Repair {
    fn check(&self) -> &'static str {
        "poststarthook/start-service-ip-repair-controllers"
    }

    fn rhythm(&self) -> Duration {
        Duration::from_secs(180)
    }

    async fn run(&self) -> Result<(), Status> {
        let reader = self.objects.reader();
        let records = reader.list(&self.addresses, None);
        // Services are read after the records, so that a record is never older than what it is compared with.
        let mut held: BTreeMap<String, Value> = BTreeMap::new();
        for service in reader.list(&self.services, None) {
            let value = service.value();
            let ips = value["spec"]["clusterIPs"].as_array().cloned().unwrap_or_default();
            for ip in ips.iter().filter_map(Value::as_str).filter(|ip| *ip != "None") {
                held.insert(ip.to_owned(), value.clone());
            }
        }
        let recorded: BTreeSet<&str> = records.iter().map(|record| &*record.name).collect();
        let context = Context::internal(self.check());
        for (ip, service) in held.iter().filter(|(ip, _)| !recorded.contains(ip.as_str())) {
            let Ok(address) = ip.parse::<IpAddr>() else { continue };
            let record = self.allocator.record(address, service);
            match self.objects.create(&context, &self.addresses, "", record).await {
                Ok(_) => tracing::warn!(%ip, service = meta::name(service), "a Service's address was not recorded"),
                Err(status) if status.is_already_exists() => {}
                Err(status) => return Err(status),
            }
        }
        for record in &records {
            let ours = record.label(MANAGED_BY) == Some(MANAGER);
            if !ours || held.contains_key(&*record.name) {
                continue;
            }
            let age =
                meta::creation_timestamp(&record.value()).map_or(0, |made| context.now.as_second() - made.as_second());
            if age < GRACE_SECONDS {
                continue;
            }
            let options = json!({"preconditions": {"uid": &*record.uid}});
            match self.objects.delete(&context, &self.addresses, "", &record.name, &options).await {
                Ok(_) => tracing::warn!(ip = &*record.name, "an address was recorded that no Service holds"),
                Err(status) if status.is_not_found() || status.is_conflict() => {}
                Err(status) => return Err(status),
            }
        }
        Ok(())
    }
}
