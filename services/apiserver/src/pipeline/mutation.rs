//! What all writes share: admission, kinds' own context, versions.

use std::sync::Arc;

use serde_json::Value;
use tracing::Instrument as _;
use trireme_kinds::Kind;
use trireme_machinery::meta;
use trireme_machinery::status::Status;

use super::engine::Engine;
use super::{Context, ObjectBody, Stored};
use crate::admission::{Attributes, Operation};
use crate::auth::escalation;

/// Whether admission is asked: it is not for the API server's own writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admit {
    Yes,
    No,
}

/// One write's admission.
pub(crate) struct Admission<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) context: &'a Context,
    pub(crate) kind: &'a Arc<Kind>,
    pub(crate) operation: Operation,
    pub(crate) subresource: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) dry_run: bool,
    pub(crate) admit: Admit,
}

// === impl Admission ===

impl Admission<'_> {
    /// Lets plugins change the object, or refuse it.
    pub(crate) async fn mutate(&self, object: &mut Value, old: Option<&Value>) -> Result<(), Status> {
        if self.admit == Admit::No {
            return Ok(());
        }
        let chain = &self.engine.parts()?.admission;
        let mut attributes = self.attributes(Some(object), old);
        let work = chain.mutate(&mut attributes);
        if self.context.trace.is_some() {
            work.instrument(trireme_telemetry::span("admit.mutate").start()).await
        } else {
            work.await
        }
    }

    /// Lets plugins refuse the object as it will be.
    pub(crate) async fn validate(&self, object: &Value, old: Option<&Value>) -> Result<(), Status> {
        if self.admit == Admit::No {
            return Ok(());
        }
        let parts = self.engine.parts()?;
        if self.kind.group == "rbac.authorization.k8s.io" && !self.context.internal {
            let write = escalation::Write {
                user: &self.context.user,
                resource: &self.kind.plural,
                namespace: self.namespace,
                name: self.name,
                object,
                old,
            };
            escalation::check(&parts.authorizer, &write)?;
        }
        let mut object = object.clone();
        let attributes = self.attributes(Some(&mut object), old);
        let work = parts.admission.validate(&attributes);
        if self.context.trace.is_some() {
            work.instrument(trireme_telemetry::span("admit.validate").start()).await
        } else {
            work.await
        }
    }

    /// Both, for a delete: there is no new object.
    pub(crate) async fn delete(&self, old: Option<&Value>) -> Result<(), Status> {
        if self.admit == Admit::No {
            return Ok(());
        }
        let chain = &self.engine.parts()?.admission;
        let mut attributes = self.attributes(None, old);
        chain.mutate(&mut attributes).await?;
        chain.validate(&attributes).await
    }

    fn attributes<'b>(&'b self, object: Option<&'b mut Value>, old: Option<&'b Value>) -> Attributes<'b> {
        Attributes {
            context: self.context,
            kind: self.kind,
            operation: self.operation,
            subresource: self.subresource,
            namespace: self.namespace,
            name: self.name,
            object,
            old,
            options: &Value::Null,
            dry_run: self.dry_run,
        }
    }
}

/// Runs a kind's hook with the request as hooks see it.
pub(crate) fn with_kind_context<T>(context: &Context, hook: impl FnOnce(&trireme_kinds::Context<'_>) -> T) -> T {
    if context.internal {
        return hook(&trireme_kinds::Context::internal(context.now));
    }
    let requester = trireme_kinds::Requester {
        name: context.user.name.clone(),
        uid: context.user.uid.clone(),
        groups: context.user.groups.clone(),
        extra: context.user.extra.clone(),
    };
    hook(&trireme_kinds::Context { now: context.now, requester: Some(&requester) })
}

/// Each owner is named once; who names one twice is warned. `admitted`: plugins have been asked already.
pub(crate) fn dedup_owners(context: &Context, object: &mut Value, admitted: bool) {
    let Some(owners) = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut) else { return };
    let (mut kept, mut twice) = (Vec::with_capacity(owners.len()), Vec::new());
    for owner in owners.drain(..) {
        if kept.contains(&owner) {
            twice.push(owner["uid"].as_str().unwrap_or_default().to_owned());
        } else {
            kept.push(owner);
        }
    }
    *owners = kept;
    if twice.is_empty() {
        return;
    }
    let when = if admitted { " after mutating admission happens" } else { "" };
    context.warn(format!(
        ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and \
         may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        twice.join(", ")
    ));
}

/// The object's namespace has to be the request's.
pub(crate) fn match_namespace(object: &mut Value, namespace: &str) -> Result<(), Status> {
    let own = meta::namespace(object);
    if own == namespace {
        return Ok(());
    }
    if own.is_empty() {
        meta::set_namespace(object, namespace);
    } else if namespace.is_empty() {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("namespace");
        }
    } else {
        let why = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Status::bad_request(why));
    }
    Ok(())
}

/// An object in the version that is stored.
pub(crate) fn to_stored(kind: &Kind, stored: &Kind, object: Value) -> Value {
    if kind.api_version() == stored.api_version() {
        return object;
    }
    let mut object = kind.hooks.upgrade(object);
    meta::set_gvk(&mut object, &stored.gvk());
    object
}

/// A stored object in the version that is asked for.
pub(crate) fn from_stored(kind: &Kind, api_version: &str, value: Value) -> Value {
    if kind.api_version() == api_version {
        return value;
    }
    let mut value = kind.hooks.downgrade(value);
    meta::set_gvk(&mut value, &kind.gvk());
    value
}

/// A written object in the version that was asked for.
pub(crate) fn answer(kind: &Kind, stored: Arc<Stored>) -> ObjectBody {
    if kind.api_version() == stored.type_meta.api_version {
        ObjectBody::Stored(stored)
    } else {
        ObjectBody::Value(from_stored(kind, &stored.type_meta.api_version, stored.value()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::auth::UserInfo;
    use crate::pipeline::RequestInfo;

    #[test]
    fn an_owner_is_kept_once() {
        let owner = |uid: &str, name: &str| json!({"uid": uid, "name": name});
        let owners = json!([owner("u", "a"), owner("u", "b"), owner("u", "a"), owner("v", "a"), owner("u", "b")]);
        let mut object = json!({"metadata": {"ownerReferences": owners}});
        let context = Context::new(RequestInfo::default(), UserInfo::default());
        dedup_owners(&context, &mut object, true);
        let kept = json!([owner("u", "a"), owner("u", "b"), owner("v", "a")]);
        assert_eq!(object["metadata"]["ownerReferences"], kept);
        dedup_owners(&context, &mut object, false);
        let [warning] = &context.warnings()[..] else { panic!("{:?}", context.warnings()) };
        assert!(
            warning.contains("after mutating admission happens") && warning.ends_with("observed: u, u"),
            "{warning}"
        );
    }
}
