//! The two Leases of a claim: the worker's own and the claim record.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use trireme_machinery::shard::{Range, SELECTOR};

/// Where both lie.
pub(super) const NAMESPACE: &str = "kube-system";
/// The label that both carry.
const ROLE: &str = "trireme.dev/lease";

/// A worker's Lease is named by the random part of its identity.
pub(super) fn worker_lease_name(identity: &str) -> String {
    let id = identity.rsplit_once('_').map_or(identity, |(_, id)| id);
    format!("trireme-worker-{id}")
}

fn seconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_secs().max(1)).unwrap_or(i32::MAX)
}

/// The worker's own Lease.
pub(super) fn worker_lease(identity: &str, duration: Duration, now: Timestamp) -> Lease {
    Lease {
        metadata: ObjectMeta {
            name: Some(worker_lease_name(identity)),
            namespace: Some(NAMESPACE.to_owned()),
            labels: Some(BTreeMap::from([(ROLE.to_owned(), "worker".to_owned())])),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(identity.to_owned()),
            lease_duration_seconds: Some(seconds(duration)),
            renew_time: Some(MicroTime(now)),
            ..LeaseSpec::default()
        }),
    }
}

/// The claim record as `identity` writes it; `before` is what it replaces.
pub(super) fn claim_record(
    before: Option<&Lease>,
    name: &str,
    keys: Range,
    identity: &str,
    duration: Duration,
    now: Timestamp,
) -> Lease {
    let mut metadata = before.map(|l| l.metadata.clone()).unwrap_or_else(|| ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(NAMESPACE.to_owned()),
        ..ObjectMeta::default()
    });
    metadata.managed_fields = None;
    metadata.annotations.get_or_insert_default().insert(SELECTOR.to_owned(), keys.to_string());
    metadata.labels.get_or_insert_default().insert(ROLE.to_owned(), "claim".to_owned());
    let spec = before.and_then(|l| l.spec.as_ref());
    let moved = holder(before) != Some(identity);
    let transitions = spec.and_then(|s| s.lease_transitions).unwrap_or(0) + i32::from(moved && before.is_some());
    let acquired = if moved { Some(MicroTime(now)) } else { spec.and_then(|s| s.acquire_time.clone()) };
    Lease {
        metadata,
        spec: Some(LeaseSpec {
            holder_identity: Some(identity.to_owned()),
            lease_duration_seconds: Some(seconds(duration)),
            acquire_time: acquired,
            renew_time: Some(MicroTime(now)),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        }),
    }
}

/// The claim record without a holder.
pub(super) fn released(record: &Lease, now: Timestamp) -> Lease {
    let mut record = record.clone();
    record.metadata.managed_fields = None;
    let spec = record.spec.get_or_insert_default();
    spec.holder_identity = Some(String::new());
    spec.lease_duration_seconds = Some(1);
    spec.renew_time = Some(MicroTime(now));
    record
}

/// Who holds a record; nobody is none.
pub(super) fn holder(record: Option<&Lease>) -> Option<&str> {
    record?.spec.as_ref()?.holder_identity.as_deref().filter(|h| !h.is_empty())
}
