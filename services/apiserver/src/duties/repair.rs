//! Every Service's addresses and node ports are recorded, and no other of ours is.
//!
//! Our own writes keep Service and record together in one transaction; this mends what another API server, a restore or
//! a hand at the store left behind.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use trireme_kinds::Kind;
use trireme_machinery::meta;
use trireme_machinery::status::Status;

use super::services::{self, Allocator, MANAGED_BY, MANAGER};
use super::{Duty, Surroundings};
use crate::error::Error;
use crate::pipeline::{Context, Objects, Stored};

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

    /// Makes the records that lack, and removes those that nobody holds. `held` are the records that there should be, by
    /// name; `records` were read before it was made, so that none is younger than what it is compared with.
    async fn mend(
        &self,
        kind: &Arc<Kind>,
        held: &BTreeMap<String, Value>,
        records: &BTreeMap<&str, &Arc<Stored>>,
    ) -> Result<(), Status> {
        let what = &*kind.singular;
        let context = Context::internal(self.check());
        for (name, record) in held.iter().filter(|(name, _)| !records.contains_key(name.as_str())) {
            match self.objects.create(&context, kind, "", record.clone()).await {
                Ok(_) => tracing::warn!(what, name, "what a Service holds was not recorded"),
                Err(status) if status.is_already_exists() => {}
                Err(status) => return Err(status),
            }
        }
        for (name, record) in records.iter().filter(|(name, _)| !held.contains_key(**name)) {
            let made = meta::creation_timestamp(&record.value());
            let age = made.map_or(0, |made| context.now.as_second() - made.as_second());
            if age < GRACE_SECONDS {
                continue;
            }
            let options = json!({"preconditions": {"uid": &*record.uid}});
            match self.objects.delete(&context, kind, "", name, &options).await {
                Ok(_) => tracing::warn!(what, name, "something was recorded that no Service holds"),
                Err(status) if status.is_not_found() || status.is_conflict() => {}
                Err(status) => return Err(status),
            }
        }
        Ok(())
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
        if !reader.synced() {
            // All that is recorded would look as if nobody held it.
            return Err(Status::service_unavailable("the watch cache is not filled yet"));
        }
        let reservations = self.allocator.reservations();
        let (addresses, ports) = (reader.list(&self.addresses, None), reader.list(reservations, None));
        let (mut held_addresses, mut held_ports) = (BTreeMap::new(), BTreeMap::new());
        for service in reader.list(&self.services, None) {
            let service = service.value();
            for address in services::addresses_of(&service).iter().filter_map(|ip| ip.parse::<IpAddr>().ok()) {
                held_addresses.insert(address.to_string(), self.allocator.record(address, &service));
            }
            for port in services::ports_of(&service) {
                held_ports.insert(port.to_string(), services::reservation(port, &service));
            }
        }
        let ours = addresses.iter().filter(|record| record.label(MANAGED_BY) == Some(MANAGER));
        self.mend(&self.addresses, &held_addresses, &by_name(ours)).await?;
        self.mend(reservations, &held_ports, &by_name(ports.iter())).await
    }
}

fn by_name<'a>(records: impl Iterator<Item = &'a Arc<Stored>>) -> BTreeMap<&'a str, &'a Arc<Stored>> {
    records.map(|record| (&*record.name, record)).collect()
}
