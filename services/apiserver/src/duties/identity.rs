//! A Lease says that this replica lives, and where it is reached; those of the dead go.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use trireme_kinds::Kind;
use trireme_machinery::status::Status;
use trireme_machinery::{meta, time};
use uuid::Uuid;

use super::{Duty, Surroundings};
use crate::config::EndpointReconciler;
use crate::error::Error;
use crate::pipeline::{Context, Objects, Reader, Stored};

const NAMESPACE: &str = "kube-system";
const LABEL: &str = "apiserver.kubernetes.io/identity";
const WHO: &str = "kube-apiserver";
/// Where the replica is reached. Replicas write it for each other, into their own Leases.
const ADDRESS: &str = "apiserver.trireme.io/advertise-address";
const SECONDS: i64 = 3600;
/// After how long without renewal a replica no longer counts for endpoints.
const ALIVE: Duration = Duration::from_secs(35);

/// The duty to say that this replica lives.
pub struct Identity {
    objects: Arc<dyn Objects>,
    kind: Arc<Kind>,
    name: String,
    holder: String,
    hostname: String,
    /// Where others reach it; absent where it keeps out of the endpoints.
    address: Option<String>,
}

/// The duty to remove the Leases of replicas that are gone.
pub struct Burial {
    objects: Arc<dyn Objects>,
    kind: Arc<Kind>,
    /// Our own Lease.
    name: String,
}

impl Identity {
    /// The identity of this process.
    pub fn new(around: &Surroundings) -> Result<Self, Error> {
        let hostname = trireme_service::hostname()?;
        let seed = format!("{hostname}/{}:{}", around.advertise, around.port);
        let hash: String = hex::encode(Sha256::digest(seed)).chars().take(26).collect();
        let name = format!("apiserver-{hash}");
        Ok(Self {
            objects: around.objects.clone(),
            kind: around.kind("coordination.k8s.io", "leases")?,
            holder: format!("{name}_{}", Uuid::new_v4()),
            name,
            hostname,
            address: (around.config.endpoint_reconciler_type == EndpointReconciler::Lease)
                .then(|| format!("{}:{}", around.advertise, around.port)),
        })
    }

    /// Its counterpart for the others.
    #[must_use]
    pub fn burial(&self) -> Burial {
        Burial { objects: self.objects.clone(), kind: self.kind.clone(), name: self.name.clone() }
    }

    async fn renew(&self) -> Result<(), Status> {
        let context = Context::internal(self.check());
        let now = time::format_micro(context.now);
        let mut object = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "namespace": NAMESPACE,
                "name": self.name,
                "labels": {LABEL: WHO, "kubernetes.io/hostname": self.hostname},
            },
            "spec": {"holderIdentity": self.holder, "leaseDurationSeconds": SECONDS, "renewTime": now},
        });
        if let Some(address) = &self.address {
            meta::set_annotation(&mut object, ADDRESS, address);
        }
        let mut change = |value: &mut Value| {
            // An update of an absent Lease makes it.
            if meta::name(value).is_empty() {
                *value = object.clone();
                return Ok(());
            }
            match &self.address {
                Some(address) => meta::set_annotation(value, ADDRESS, address),
                None => drop(meta::remove_annotation(value, ADDRESS)),
            }
            meta::set_label(value, LABEL, WHO);
            value["spec"]["holderIdentity"] = json!(self.holder);
            value["spec"]["leaseDurationSeconds"] = json!(SECONDS);
            value["spec"]["renewTime"] = json!(now);
            Ok(())
        };
        self.objects.update(&context, &self.kind, NAMESPACE, &self.name, "", &mut change).await.map(|_| ())
    }
}

impl Burial {
    async fn bury(&self) -> Result<(), Status> {
        let now = Timestamp::now();
        for lease in identities(self.objects.reader(), &self.kind) {
            let value = lease.value();
            let duration = value["spec"]["leaseDurationSeconds"].as_i64().unwrap_or(SECONDS);
            if *lease.name == *self.name || !is_older(&value, now, duration) {
                continue;
            }
            let context = Context::internal(self.check());
            let options = json!({"preconditions": {"uid": &*lease.uid, "resourceVersion": lease.revision.to_string()}});
            match self.objects.delete(&context, &self.kind, NAMESPACE, &lease.name, &options).await {
                Ok(_) => tracing::info!(lease = &*lease.name, "the identity of a dead replica was removed"),
                Err(status) if status.is_not_found() || status.is_conflict() => {}
                Err(status) => return Err(status),
            }
        }
        Ok(())
    }
}

fn identities(reader: &dyn Reader, kind: &Kind) -> Vec<Arc<Stored>> {
    let mut leases = reader.list(kind, Some(NAMESPACE));
    leases.retain(|lease| lease.label(LABEL) == Some(WHO));
    leases
}

fn is_older(lease: &Value, now: Timestamp, seconds: i64) -> bool {
    let renewed = lease["spec"]["renewTime"].as_str().and_then(|text| time::parse_micro(text).ok());
    renewed.is_none_or(|renewed| now.as_second() - renewed.as_second() > seconds)
}

/// The addresses and ports of the replicas that live.
pub(super) fn living(reader: &dyn Reader, kind: &Kind, now: Timestamp) -> Vec<(IpAddr, u16)> {
    let alive = i64::try_from(ALIVE.as_secs()).unwrap_or(i64::MAX);
    let leases = identities(reader, kind);
    let addresses = leases.iter().filter_map(|lease| {
        let value = lease.value();
        if is_older(&value, now, alive) {
            return None;
        }
        let (address, port) = meta::annotation(&value, ADDRESS)?.rsplit_once(':')?;
        Some((address.parse().ok()?, port.parse().ok()?))
    });
    addresses.collect()
}

#[async_trait]
impl Duty for Identity {
    fn check(&self) -> &'static str {
        "poststarthook/start-kube-apiserver-identity-lease-controller"
    }

    fn rhythm(&self) -> Duration {
        Duration::from_secs(10)
    }

    async fn run(&self) -> Result<(), Status> {
        self.renew().await
    }
}

#[async_trait]
impl Duty for Burial {
    fn check(&self) -> &'static str {
        "poststarthook/start-kube-apiserver-identity-lease-garbage-collector"
    }

    fn rhythm(&self) -> Duration {
        Duration::from_secs(10)
    }

    async fn run(&self) -> Result<(), Status> {
        self.bury().await
    }
}
