//! The fence of a worker's writes (DESIGN 5): its claim has to be over the keys it writes, and still be its own.
//!
//! That the claim is still its own the store compares in the transaction itself. Which keys it is over stands in the
//! claim record, and the comparison holds the record to the very version that was read here.

use std::sync::Arc;

use trireme_machinery::gvk::GroupResource;
use trireme_machinery::meta;
use trireme_machinery::shard::{self, Range, SELECTOR};
use trireme_machinery::status::{self, Details, Reason, Status};
use trireme_proto::resources::v1::Fence;

use super::engine::Engine;
use super::persist::Write;
use super::{Context, Stored};
use crate::storage::keys;

/// Where claim records are.
const NAMESPACE: &str = "kube-system";

impl Engine {
    /// The key of the record of a fence's claim.
    pub(crate) fn claim_key(&self, fence: &Fence) -> String {
        keys::key(&self.root, "leases", NAMESPACE, &fence.claim)
    }

    /// Refuses a write outside of the claim's shard.
    pub(crate) async fn check_shard(&self, context: &Context, fence: &Fence, write: &Write<'_>) -> Result<(), Status> {
        let Some(record) = self.claim_record(context, fence).await? else {
            // It is gone or has moved on: the transaction says so.
            return Ok(());
        };
        let record = record.value();
        // A worker that takes a claim over compares the other's Lease, which is about no keys.
        let Some(selector) = meta::annotation(&record, SELECTOR) else { return Ok(()) };
        let keys: Range = selector.parse().map_err(|error| Status::internal(format!("{}: {error}", fence.claim)))?;
        let outside = |what: String| {
            let why = format!("the claim {} is over {keys}, in which {what} is not", fence.claim);
            Err(claim_lost(&write.kind.group_resource(), object_name(write), why))
        };
        match fence.key.split_once('/') {
            Some((namespace, _)) if !keys.holds(namespace) => outside(fence.key.clone()),
            _ if !keys.holds(place(write)) => outside("what it writes".to_owned()),
            _ => Ok(()),
        }
    }

    /// The record that the claim's epoch names.
    async fn claim_record(&self, context: &Context, fence: &Fence) -> Result<Option<Arc<Stored>>, Status> {
        if fence.epoch == 0 {
            return Ok(None);
        }
        let key = self.claim_key(fence);
        let named = |record: &Arc<Stored>| record.revision == fence.epoch;
        if let Some(record) = self.cache.get("leases", &key).filter(named) {
            return Ok(Some(record));
        }
        let Some(codec) = self.cache.codec("leases") else { return Ok(None) };
        let record = self.read_key(&codec.kind.clone(), &key, context.deadline).await?;
        Ok(record.map(Arc::new).filter(named))
    }
}

/// What decides in which shard the write is. The uid of a cluster-scoped object that is about to be made decides nothing:
/// its writer did not know it.
fn place<'a>(write: &Write<'a>) -> &'a str {
    let resource = write.kind.group_resource();
    match (write.old, write.new) {
        (Some((_, object)), _) => shard::place(&resource, object),
        (None, Some(object)) => {
            let place = shard::place(&resource, object);
            if place == meta::uid(object) { "" } else { place }
        }
        (None, None) => "",
    }
}

/// The name of what is written.
pub(crate) fn object_name<'a>(write: &Write<'a>) -> &'a str {
    match (write.new, write.old) {
        (Some(object), _) => meta::name(object),
        (None, Some((stored, _))) => &stored.name,
        (None, None) => "",
    }
}

/// 409: the writer has not, or no longer, the claim over what it writes. Not to be repeated.
pub(crate) fn claim_lost(resource: &GroupResource, name: &str, why: String) -> Status {
    let mut refusal = Status::conflict(resource, name, &why);
    let details = refusal.details.get_or_insert_with(|| Box::new(Details::default()));
    details.causes.push(status::Cause {
        reason: status::cause::CLAIM_LOST.to_owned(),
        message: why,
        field: String::new(),
    });
    debug_assert_eq!(refusal.reason, Reason::Conflict);
    refusal
}

/// The words for a claim that moved on.
pub(crate) fn moved_on(fence: &Fence, epoch: i64) -> String {
    format!("the claim {} is at epoch {epoch}, not {}", fence.claim, fence.epoch)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use trireme_kinds::{Kind, Registry};

    use super::*;

    #[test]
    fn a_uid_that_is_new_is_no_place() {
        let kind = |plural| Registry::builtin().by_resource("", "v1", plural).unwrap();
        let at = |kind: &Arc<Kind>, object: &Value| {
            place(&Write { kind, key: "", old: None, new: Some(object), companions: Vec::new() }).to_owned()
        };
        let object = json!({"metadata": {"name": "a", "uid": "u"}});
        assert_eq!(at(&kind("nodes"), &object), "");
        assert_eq!(at(&kind("namespaces"), &object), "a");
        assert_eq!(at(&kind("pods"), &json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}})), "n");
    }
}
