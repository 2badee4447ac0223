//! From an object to the store: one transaction, with its companions, its cause and its claim.

use std::sync::Arc;

use serde_json::Value;
use tracing::Instrument as _;
use trireme_kinds::Kind;
use trireme_machinery::meta;
use trireme_machinery::status::Status;
use trireme_proto::mvccpb::KeyValue;
use trireme_telemetry::{Cause, SpanExt as _};
use uuid::Uuid;

use super::engine::Engine;
use super::fence::{claim_lost, moved_on, object_name};
use super::{Companion, Context, Stored};
use crate::storage::txn::Change;
use crate::storage::{Outcome, Transaction, causes, codec};

/// A write of one object.
pub(crate) struct Write<'a> {
    /// The kind in the version that is stored.
    pub(crate) kind: &'a Arc<Kind>,
    /// The object's key.
    pub(crate) key: &'a str,
    /// The version it was computed from, parsed; None for a create.
    pub(crate) old: Option<(&'a Stored, &'a Value)>,
    /// The object to be, in the version that is stored; None deletes.
    pub(crate) new: Option<&'a Value>,
    /// What goes along.
    pub(crate) companions: Vec<Companion>,
}

/// What became of it.
pub(crate) enum Committed {
    /// It is written. Of a delete, the last version at the deletion's revision.
    Done(Arc<Stored>),
    /// The object is not what it was: this is it now.
    Moved(Option<Arc<Stored>>),
    /// A companion's place is taken.
    CompanionTaken(String),
}

impl Engine {
    /// Carries a write out.
    pub(crate) async fn commit(&self, context: &Context, write: Write<'_>) -> Result<Committed, Status> {
        let cause = self.cause(context, write.old, write.new);
        let expected = write.old.map_or(0, |(stored, _)| stored.revision);
        let value = match write.new {
            Some(object) => {
                let resource = write.kind.group_resource();
                Some(self.sealing.seal(&resource, write.key, codec::value(object))?)
            }
            None => None,
        };
        let lease = if write.new.is_some() { self.lease(context, write.kind, write.old.is_none()).await? } else { 0 };
        let change = Change { key: write.key.to_owned(), expected: Some(expected), value, lease, cause };
        let mut transaction = Transaction::of(change);
        for companion in &write.companions {
            transaction.changes.push(self.companion(context, companion, cause.as_ref())?);
        }
        if let Some(fence) = &context.fence {
            self.check_shard(context, fence, &write).await?;
            transaction.fence_key = self.claim_key(fence);
            transaction.fence = Some(fence.clone());
        }
        match self.transact(context, &transaction).await? {
            Outcome::Written(revision) => {
                context.wrote(revision);
                let cause = cause.map(Arc::new);
                let codec = self.codec(write.kind)?;
                let stored = match (write.new, write.old) {
                    (Some(object), _) => codec.make(write.key, object.clone(), revision, cause),
                    (None, Some((last, _))) => codec.tombstone(last, revision, cause),
                    (None, None) => return Err(Status::internal("a delete of nothing")),
                };
                self.settle(revision, context).await;
                Ok(Committed::Done(Arc::new(stored)))
            }
            Outcome::Moved { index: 0, current } => {
                let created = current.as_ref().map_or(0, |kv| kv.create_revision);
                let current = current.map(|kv| self.decode_stored(write.kind, &kv)).transpose()?;
                if let Some(ours) = own_creation(&write, current.as_ref()) {
                    context.wrote(created);
                    let cause = cause.map(Arc::new);
                    let stored = self.codec(write.kind)?.make(write.key, ours.clone(), created, cause);
                    self.settle(created, context).await;
                    return Ok(Committed::Done(Arc::new(stored)));
                }
                Ok(Committed::Moved(current.map(Arc::new)))
            }
            Outcome::Moved { index, .. } => {
                let key = transaction.changes.get(index).map(|change| change.key.clone()).unwrap_or_default();
                Ok(Committed::CompanionTaken(key))
            }
            Outcome::ClaimLost { epoch } => {
                let fence = context.fence.clone().unwrap_or_default();
                Err(claim_lost(&write.kind.group_resource(), object_name(&write), moved_on(&fence, epoch)))
            }
        }
    }

    async fn transact(&self, context: &Context, transaction: &Transaction) -> Result<Outcome, Status> {
        let run = transaction.run(&self.client, context.deadline);
        if context.trace.is_none() {
            return Ok(run.await?);
        }
        let span =
            trireme_telemetry::span("store.txn").attribute("store.changes", transaction.changes.len() as i64).start();
        let outcome = run.instrument(span.clone()).await;
        match &outcome {
            Ok(Outcome::Written(revision)) => span.attribute("revision", *revision),
            Ok(_) => span.attribute("refused", true),
            Err(error) => span.fail(error.to_string()),
        }
        Ok(outcome?)
    }

    fn companion(&self, context: &Context, companion: &Companion, cause: Option<&Cause>) -> Result<Change, Status> {
        match companion {
            Companion::Create { kind, namespace, object } => {
                let mut object = object.clone();
                fill_system_fields(&mut object, context);
                let key = self.key(kind, namespace, meta::name(&object));
                let value = self.sealing.seal(&kind.group_resource(), &key, codec::value(&object))?;
                Ok(Change { key, expected: Some(0), value: Some(value), lease: 0, cause: cause.copied() })
            }
            Companion::Delete { kind, namespace, name } => {
                let key = self.key(kind, namespace, name);
                Ok(Change { key, expected: None, value: None, lease: 0, cause: cause.copied() })
            }
        }
    }

    /// Events expire; a lease of the store sees to it. An update starts the time anew, as upstream's does.
    async fn lease(&self, context: &Context, kind: &Kind, _create: bool) -> Result<i64, Status> {
        if kind.storage != "events" {
            return Ok(0);
        }
        Ok(self.event_leases.take(&self.client, context.deadline).await?)
    }

    /// A value as the store answered it.
    pub(crate) fn decode_stored(&self, kind: &Kind, kv: &KeyValue) -> Result<Stored, Status> {
        let codec = self.codec(kind)?;
        let key = String::from_utf8_lossy(&kv.key);
        let value = self.sealing.open(&codec.kind.group_resource(), &key, kv.value.clone())?;
        let cause = kv.cause.as_ref().and_then(causes::from_store).map(Arc::new);
        Ok(codec.read(&key, &value, kv.mod_revision, cause)?)
    }
}

/// Fills in what the API server gives a new object: uid and time of creation.
pub(crate) fn fill_system_fields(object: &mut Value, context: &Context) {
    if meta::uid(object).is_empty() {
        meta::set_uid(object, &Uuid::new_v4().to_string());
    }
    if meta::creation_timestamp(object).is_none() {
        meta::set_creation_timestamp(object, context.now);
    }
}

/// What a create made whose answer was lost, and which others have changed since: the uid is ours alone.
fn own_creation<'a>(write: &Write<'a>, current: Option<&Stored>) -> Option<&'a Value> {
    let new = write.new.filter(|_| write.old.is_none())?;
    let uid = meta::uid(new);
    current.is_some_and(|current| !uid.is_empty() && *current.uid == *uid).then_some(new)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trireme_kinds::Registry;

    use super::*;
    use crate::storage::codec::Codec;

    #[test]
    fn what_was_created_and_changed_since_is_still_ours() {
        let kind = Registry::builtin().by_resource("", "v1", "pods").unwrap();
        let codec = Codec::new(kind.clone());
        let pod = |uid: &str, node: &str| json!({"metadata": {"name": "p", "uid": uid}, "spec": {"nodeName": node}});
        let (key, new) = ("/registry/pods/a/p", pod("u1", ""));
        let write = Write { kind: &kind, key, old: None, new: Some(&new), companions: Vec::new() };
        let bound = codec.make(key, pod("u1", "n1"), 9, None);
        let other = codec.make(key, pod("u2", "n1"), 9, None);
        assert_eq!(own_creation(&write, Some(&bound)), Some(&new));
        assert_eq!(own_creation(&write, Some(&other)), None);
        assert_eq!(own_creation(&write, None), None);
        // An update's comparison failed because somebody came between.
        let old = pod("u1", "");
        let update = Write { old: Some((&bound, &old)), ..write };
        assert_eq!(own_creation(&update, Some(&bound)), None);
    }
}
