//! Update and patch: read, change, write, until nobody came between.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use tokio::time::Instant;
use trireme_kinds::Kind;
use trireme_machinery::field;
use trireme_machinery::gvk::GroupVersionKind;
use trireme_machinery::meta;
use trireme_machinery::ownership::managers::same_but_times;
use trireme_machinery::path::Path;
use trireme_machinery::status::{Reason, Status};

use super::engine::{Engine, Target};
use super::mutation::{self, Admission, Admit};
use super::options::{WriteOptions, parse_unsigned};
use super::persist::{Committed, Write};
use super::{Context, ObjectBody, Stored, ownership};
use crate::admission::Operation;

const MODIFIED: &str = "the object has been modified; please apply your changes to the latest version and try again";
/// How often a change that does not name a version is computed anew.
const TRIES: usize = 20;

/// Computes what an object is to become.
#[async_trait]
pub(crate) trait Change: Send {
    /// The new object from the one that is (in the version that is asked for; None where there is none and the kind may
    /// be created by an update), decoded and defaulted.
    async fn apply(&mut self, old: Option<&Value>) -> Result<Value, Status>;

    /// Whether it can make an object where there is none.
    fn creates(&self) -> bool {
        true
    }

    /// The uid that the object must have.
    fn uid(&self) -> Option<&str> {
        None
    }
}

/// A change that puts an object as it is.
pub(crate) struct Put(pub(crate) Value);

#[async_trait]
impl Change for Put {
    async fn apply(&mut self, _old: Option<&Value>) -> Result<Value, Status> {
        Ok(self.0.clone())
    }

    fn uid(&self) -> Option<&str> {
        Some(meta::uid(&self.0)).filter(|uid| !uid.is_empty())
    }
}

/// What an update made.
pub(crate) struct Updated {
    pub(crate) object: ObjectBody,
    pub(crate) created: bool,
}

/// The version an update starts from.
struct Base {
    stored: Option<Arc<Stored>>,
    /// Whether it is known to be the newest.
    fresh: bool,
}

// === impl Engine ===

impl Engine {
    /// Changes an object, or its `subresource`.
    pub(crate) async fn update_object(
        &self,
        context: &Context,
        target: &Target,
        subresource: &str,
        change: &mut dyn Change,
        options: &WriteOptions,
        admit: Admit,
    ) -> Result<Updated, Status> {
        let kind = &target.kind;
        let key = self.key(kind, &target.namespace, &target.name);
        let mut base = match self.cache.get(&kind.storage, &key) {
            Some(stored) => Base { stored: Some(stored), fresh: false },
            None => self.newest(kind, &key, context.deadline).await?,
        };
        for _ in 0..TRIES {
            let fresh = base.fresh;
            match self.try_update(context, target, &key, subresource, base, change, options, admit).await {
                Ok(Ok(updated)) => return Ok(updated),
                Ok(Err(moved)) => base = moved,
                // The cache may be late: what it made us refuse is judged again on the newest version.
                Err(refusal) if fresh || refusal.is_timeout() => return Err(refusal),
                Err(_) => base = self.newest(kind, &key, context.deadline).await?,
            }
        }
        Err(Status::conflict(&target.resource(), &target.name, MODIFIED))
    }

    async fn newest(&self, kind: &Kind, key: &str, deadline: Instant) -> Result<Base, Status> {
        let stored = self.read_key(kind, key, deadline).await?;
        Ok(Base { stored: stored.map(Arc::new), fresh: true })
    }

    /// One try; the inner error is the version that came between.
    #[allow(clippy::too_many_arguments, reason = "one request, taken apart once, in the loop above")]
    async fn try_update(
        &self,
        context: &Context,
        target: &Target,
        key: &str,
        subresource: &str,
        base: Base,
        change: &mut dyn Change,
        options: &WriteOptions,
        admit: Admit,
    ) -> Result<Result<Updated, Base>, Status> {
        let kind = &target.kind;
        let Some(stored) = base.stored else {
            if !kind.rules.create_on_update || !subresource.is_empty() || !change.creates() {
                return Err(target.not_found());
            }
            if let Some(uid) = change.uid() {
                return Err(uid_conflict(target, key, uid, ""));
            }
            let object = change.apply(None).await?;
            let object = self.create_object(context, target, object, options, admit).await?;
            return Ok(Ok(Updated { object, created: true }));
        };
        if let Some(uid) = change.uid().filter(|uid| **uid != *stored.uid) {
            return Err(uid_conflict(target, key, uid, &stored.uid));
        }
        let old = self.convert(kind, &stored);
        let mut new = change.apply(Some(&old)).await?;
        check_place(&mut new, target)?;
        let admission = Admission {
            engine: self,
            context,
            kind,
            operation: Operation::Update,
            subresource,
            namespace: &target.namespace,
            name: &target.name,
            dry_run: options.dry_run,
            admit,
        };
        if admit == Admit::Yes || context.internal {
            ownership::track(context, kind, subresource, Some(&old), &mut new, options);
        }
        admission.mutate(&mut new, Some(&old)).await?;
        mutation::dedup_owners(context, &mut new, true);
        check_version(target, &mut new, &stored)?;
        keep_system_fields(&mut new, &old);
        let mut companions = Vec::new();
        if subresource.is_empty()
            && let Some(hooks) = self.companions_for(kind)?
        {
            companions = hooks.update(context, &mut new, &old, options.dry_run).await?;
        }
        prepare(context, kind, subresource, &mut new, &old);
        validate(context, kind, subresource, &new, &old)?;
        // Who writes a status is no one to be warned of the rest.
        for warning in subresource.is_empty().then(|| kind.hooks.warnings(&new, Some(&old))).into_iter().flatten() {
            context.warn(warning);
        }
        admission.validate(&new, Some(&old)).await?;
        kind.settle_stored(&mut new);

        if same(&new, &old) {
            // Nothing to write; but what the cache had may be late, and then the version it has is not an answer.
            if base.fresh || self.is_newest(context, kind, key, &stored).await? {
                return Ok(Ok(Updated { object: mutation::answer(kind, stored), created: false }));
            }
            return Ok(Err(self.newest(kind, key, context.deadline).await?));
        }
        if options.dry_run {
            return Ok(Ok(Updated { object: ObjectBody::Value(new), created: false }));
        }
        let stored_kind = self.codec(kind)?.kind.clone();
        let old_stored = stored.value();
        let gone = is_done(kind, &new, &old);
        let to_store = mutation::to_stored(kind, &stored_kind, new);
        if gone {
            companions.extend(self.companions_for(kind)?.map(|hooks| hooks.delete(&old)).unwrap_or_default());
        }
        let write = Write {
            kind: &stored_kind,
            key,
            old: Some((&stored, &old_stored)),
            new: (!gone).then_some(&to_store),
            companions,
        };
        match self.commit(context, write).await? {
            Committed::Done(tombstone) if gone => {
                // The answer is the object without its finalizers, as it was last.
                let mut last = to_store;
                meta::set_resource_version(&mut last, &tombstone.revision.to_string());
                Ok(Ok(Updated {
                    object: ObjectBody::Value(mutation::from_stored(kind, &stored_kind.api_version(), last)),
                    created: false,
                }))
            }
            Committed::Done(stored) => Ok(Ok(Updated { object: mutation::answer(kind, stored), created: false })),
            Committed::Moved(stored) => Ok(Err(Base { stored, fresh: true })),
            Committed::CompanionTaken(_) => Ok(Err(self.newest(kind, key, context.deadline).await?)),
        }
    }

    async fn is_newest(&self, context: &Context, kind: &Kind, key: &str, stored: &Stored) -> Result<bool, Status> {
        let newest = self.read_key(kind, key, context.deadline).await?;
        Ok(newest.is_some_and(|newest| newest.revision == stored.revision))
    }
}

/// The namespace and the name in the object have to be those of the path.
pub(crate) fn check_place(object: &mut Value, target: &Target) -> Result<(), Status> {
    mutation::match_namespace(object, &target.namespace)?;
    let (name, asked) = (meta::name(object), &target.name);
    if name.is_empty() {
        let why = format!("the name of the object ({asked} based on URL) was undeterminable: name must be provided");
        return Err(Status::bad_request(why));
    }
    if name != asked {
        let why = format!("the name of the object ({name}) does not match the name on the URL ({asked})");
        return Err(Status::bad_request(why));
    }
    Ok(())
}

/// A version that the object names has to be the one that is; without one, the kind says whether that is allowed.
fn check_version(target: &Target, new: &mut Value, stored: &Stored) -> Result<(), Status> {
    let kind = &target.kind;
    let asked = meta::resource_version(new);
    if asked.is_empty() || asked == "0" {
        if !kind.rules.unconditional_update {
            let at = Path::new("metadata").child("resourceVersion");
            let errors = vec![field::invalid(&at, &0, "must be specified for an update")];
            // Here upstream names the resource where it names the kind elsewhere.
            let resource = GroupVersionKind::new(&*kind.group, &*kind.version, &*kind.plural);
            return Err(Status::invalid(&resource, &target.name, errors));
        }
        meta::set_resource_version(new, &stored.revision.to_string());
        return Ok(());
    }
    if asked == stored.revision.to_string() {
        return Ok(());
    }
    if let Err(why) = parse_unsigned(asked) {
        return Err(Status::failure(500, Reason::Unknown, why));
    }
    Err(Status::conflict(&target.resource(), &target.name, MODIFIED))
}

/// An update neither sets nor clears what the API server keeps.
fn keep_system_fields(new: &mut Value, old: &Value) {
    let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let before =
        |key: &str| old.get("metadata").and_then(|metadata| metadata.get(key)).filter(|value| !value.is_null());
    metadata.remove("selfLink");
    if metadata.get("uid").and_then(Value::as_str).unwrap_or_default().is_empty()
        && let Some(uid) = before("uid")
    {
        metadata.insert("uid".to_owned(), uid.clone());
    }
    if let Some(created) = before("creationTimestamp") {
        metadata.insert("creationTimestamp".to_owned(), created.clone());
    }
    match before("deletionTimestamp") {
        Some(deleted) => _ = metadata.insert("deletionTimestamp".to_owned(), deleted.clone()),
        None => _ = metadata.remove("deletionTimestamp"),
    }
    match before("deletionGracePeriodSeconds") {
        Some(grace) => {
            if metadata.get("deletionGracePeriodSeconds").is_none_or(Value::is_null) {
                metadata.insert("deletionGracePeriodSeconds".to_owned(), grace.clone());
            }
        }
        None => _ = metadata.remove("deletionGracePeriodSeconds"),
    }
}

fn prepare(context: &Context, kind: &Kind, subresource: &str, new: &mut Value, old: &Value) {
    mutation::with_kind_context(context, |hooks| match subresource {
        "" => kind.prepare_update(new, old, hooks),
        "status" => kind.prepare_update_status(new, old, hooks),
        "finalize" => keep_all_but(new, old, &["/spec/finalizers"]),
        "approval" => keep_all_but(new, old, &["/status/conditions"]),
        "ephemeralcontainers" | "resize" => kind.prepare_subresource(subresource, new, old),
        // What a binding changes is made by the API server itself.
        "binding" => {}
        _ => kind.prepare_update(new, old, hooks),
    });
}

/// The old object with these parts (and the metadata) of the new one.
fn keep_all_but(new: &mut Value, old: &Value, parts: &[&str]) {
    let mut kept = old.clone();
    kept["metadata"] = new["metadata"].clone();
    for part in parts {
        let (parent, name) = part.rsplit_once('/').unwrap_or_default();
        let Some(parent) = kept.pointer_mut(parent).and_then(Value::as_object_mut) else { continue };
        match new.pointer(part) {
            Some(value) => _ = parent.insert(name.to_owned(), value.clone()),
            None => _ = parent.remove(name),
        }
    }
    *new = kept;
}

fn validate(context: &Context, kind: &Kind, subresource: &str, new: &Value, old: &Value) -> Result<(), Status> {
    let errors = mutation::with_kind_context(context, |hooks| match subresource {
        "status" | "approval" => kind.validate_update_status(new, old, hooks),
        "ephemeralcontainers" | "resize" | "finalize" => kind.validate_subresource(subresource, new, old),
        "binding" => Vec::new(),
        _ => kind.validate_update(new, old, hooks),
    });
    if errors.is_empty() { Ok(()) } else { Err(kind.invalid(meta::name(new), errors)) }
}

/// Whether two objects are stored alike, but for the times at which their managers wrote.
fn same(new: &Value, old: &Value) -> bool {
    if new["metadata"]["managedFields"] == old["metadata"]["managedFields"] {
        return new == old;
    }
    same_but_times(new, old)
}

/// Whether an update takes the last thing away that kept a deleted object.
fn is_done(kind: &Kind, new: &Value, old: &Value) -> bool {
    if meta::finalizers(new).next().is_some() || !meta::is_deleting(old) {
        return false;
    }
    if kind.plural == "namespaces" && new["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty()) {
        return false;
    }
    meta::deletion_grace_period_seconds(old).unwrap_or(0) == 0
}

fn uid_conflict(target: &Target, key: &str, wanted: &str, found: &str) -> Status {
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
    );
    Status::conflict(&target.resource(), &target.name, why)
}
