//! Delete: grace, finalizers, propagation, preconditions; and the deletion of collections.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use serde_json::{Value, json};
use tokio::time::Instant;
use trireme_kinds::Kind;
use trireme_machinery::gvk::GroupResource;
use trireme_machinery::meta;
use trireme_machinery::status::{Details, Status};

use super::engine::{Engine, Target};
use super::mutation::{self, Admission, Admit};
use super::options::{DeleteOptions, ListOptions, Propagation};
use super::persist::{Committed, Write};
use super::read::ListAnswer;
use super::{Context, ObjectBody, Stored};
use crate::admission::Operation;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
const TRIES: usize = 20;

/// What a deletion answers.
#[derive(Debug)]
pub(crate) enum Deleted {
    /// The object: as it was last, or as it waits for its end.
    Object(ObjectBody),
    /// That it is gone.
    Gone(Box<Status>),
}

/// What a deletion does to an object, decided on one version of it.
enum Plan {
    /// It goes.
    Remove,
    /// It stays, changed like this.
    Mark(Value),
    /// It stays as it is: it is being deleted already.
    Wait,
}

// === impl Engine ===

impl Engine {
    /// Deletes one object. The second part says that it was removed.
    pub(crate) async fn delete_object(
        &self,
        context: &Context,
        target: &Target,
        options: &DeleteOptions,
        admit: Admit,
    ) -> Result<(Deleted, bool), Status> {
        let kind = &target.kind;
        let key = self.key(kind, &target.namespace, &target.name);
        let mut fresh = false;
        let mut base = self.cache.get(&kind.storage, &key);
        for _ in 0..TRIES {
            let Some(stored) = base else {
                if fresh {
                    return Err(target.not_found());
                }
                (base, fresh) = (self.newest_version(kind, &key, context.deadline).await?, true);
                if base.is_none() {
                    return Err(target.not_found());
                }
                continue;
            };
            match self.try_delete(context, target, &key, &stored, options, admit).await {
                Ok(Ok(deleted)) => return Ok(deleted),
                Ok(Err(moved)) => (base, fresh) = (moved, true),
                Err(refusal) if fresh || refusal.is_timeout() => return Err(refusal),
                Err(_) => (base, fresh) = (self.newest_version(kind, &key, context.deadline).await?, true),
            }
        }
        Err(Status::conflict(&target.resource(), &target.name, "the object was modified again and again"))
    }

    async fn newest_version(&self, kind: &Kind, key: &str, deadline: Instant) -> Result<Option<Arc<Stored>>, Status> {
        Ok(self.read_key(kind, key, deadline).await?.map(Arc::new))
    }

    #[allow(clippy::type_complexity, reason = "the inner result is what came between")]
    async fn try_delete(
        &self,
        context: &Context,
        target: &Target,
        key: &str,
        stored: &Arc<Stored>,
        options: &DeleteOptions,
        admit: Admit,
    ) -> Result<Result<(Deleted, bool), Option<Arc<Stored>>>, Status> {
        let kind = &target.kind;
        let old = self.convert(kind, stored);
        let admission = Admission {
            engine: self,
            context,
            kind,
            operation: Operation::Delete,
            subresource: "",
            namespace: &target.namespace,
            name: &target.name,
            dry_run: options.dry_run,
            admit,
        };
        admission.delete(Some(&old)).await?;
        check_preconditions(kind, &old, options)?;
        let plan = plan(context, kind, &old, options);
        if options.dry_run {
            return Ok(Ok(match plan {
                Plan::Remove => (self.gone(kind, &old, old.clone()), true),
                Plan::Mark(new) => (Deleted::Object(ObjectBody::Value(new)), false),
                Plan::Wait => (Deleted::Object(mutation::answer(kind, stored.clone())), false),
            }));
        }
        let stored_kind = self.codec(kind)?.kind.clone();
        let old_stored = stored.value();
        match plan {
            Plan::Wait => Ok(Ok((Deleted::Object(mutation::answer(kind, stored.clone())), false))),
            Plan::Mark(new) => {
                let new = mutation::to_stored(kind, &stored_kind, new);
                let write = Write {
                    kind: &stored_kind,
                    key,
                    old: Some((stored, &old_stored)),
                    new: Some(&new),
                    companions: Vec::new(),
                };
                Ok(match self.commit(context, write).await? {
                    Committed::Done(marked) => Ok((Deleted::Object(mutation::answer(kind, marked)), false)),
                    Committed::Moved(current) => Err(current),
                    Committed::CompanionTaken(_) => Err(Some(stored.clone())),
                })
            }
            Plan::Remove => {
                let companions = self.companions_for(kind)?.map(|hooks| hooks.delete(&old)).unwrap_or_default();
                let write = Write { kind: &stored_kind, key, old: Some((stored, &old_stored)), new: None, companions };
                Ok(match self.commit(context, write).await? {
                    Committed::Done(tombstone) => {
                        let last = self.convert(kind, &tombstone);
                        Ok((self.gone(kind, &old, last), true))
                    }
                    Committed::Moved(current) => Err(current),
                    Committed::CompanionTaken(_) => Err(Some(stored.clone())),
                })
            }
        }
    }

    fn gone(&self, kind: &Kind, old: &Value, last: Value) -> Deleted {
        if answers_with_object(kind) {
            return Deleted::Object(ObjectBody::Value(last));
        }
        Deleted::Gone(Box::new(Status::success(Some(Details {
            name: meta::name(old).to_owned(),
            group: kind.group.clone(),
            kind: kind.plural.clone(),
            uid: meta::uid(old).to_owned(),
            ..Details::default()
        }))))
    }

    /// Deletes every object of a list, some at a time, and answers the list. After a failure no more are begun; it is the
    /// answer once those under way have ended.
    pub(crate) async fn delete_collection(
        &self,
        context: &Context,
        target: &Target,
        list: &ListOptions,
        options: &DeleteOptions,
        admit: Admit,
    ) -> Result<ListAnswer, Status> {
        let answer = self.list_objects(context, target, list).await?;
        let mut waiting = answer.items.iter();
        let mut under_way = FuturesUnordered::new();
        let mut failure = None;
        loop {
            while failure.is_none() && under_way.len() < self.delete_workers {
                let Some(item) = waiting.next() else { break };
                let one = Target {
                    kind: target.kind.clone(),
                    namespace: item.namespace.to_string(),
                    name: item.name.to_string(),
                };
                under_way.push(async move { self.delete_object(context, &one, options, admit).await });
            }
            match under_way.next().await {
                None => break,
                Some(Err(status)) if !status.is_not_found() => failure = failure.or(Some(status)),
                Some(_) => {}
            }
        }
        failure.map_or(Ok(answer), Err)
    }
}

/// What a client should know that left it to the kind what becomes of an object's dependents.
pub(crate) fn warning(kind: &Kind, options: &DeleteOptions) -> Option<&'static str> {
    let left_open = options.propagation.is_none() && options.orphan_dependents.is_none();
    (left_open && kind.group == "batch" && kind.plural == "jobs").then_some(
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or \
         set propagationPolicy=Orphan to suppress this warning",
    )
}

fn check_preconditions(kind: &Kind, old: &Value, options: &DeleteOptions) -> Result<(), Status> {
    // Here upstream names the kind where it names the resource elsewhere.
    let resource = GroupResource::new(&*kind.group, &*kind.kind);
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != meta::uid(old)) {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been \
             deleted and then recreated",
            meta::uid(old)
        );
        return Err(Status::conflict(&resource, meta::name(old), why));
    }
    if let Some(version) = options.resource_version.as_deref().filter(|version| *version != meta::resource_version(old))
    {
        let why = format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). \
             The object might have been modified",
            meta::resource_version(old)
        );
        return Err(Status::conflict(&resource, meta::name(old), why));
    }
    Ok(())
}

/// Decides what the deletion does to this version of the object.
fn plan(context: &Context, kind: &Kind, old: &Value, options: &DeleteOptions) -> Plan {
    if kind.plural == "namespaces" && kind.group.is_empty() {
        return plan_namespace(context, old);
    }
    let mut new = old.clone();
    // A negative time is one second.
    let requested = options.grace.map(|seconds| if seconds < 0 { 1 } else { seconds });
    let grace = kind.hooks.graceful_delete(old, requested);
    let mut graceful = false;
    if let Some(seconds) = grace {
        if meta::is_deleting(old) {
            // A deletion under way can only be shortened.
            let current = meta::deletion_grace_period_seconds(old).unwrap_or(0);
            match requested {
                Some(seconds) if seconds < current => {
                    let begun = meta::deletion_timestamp(old).unwrap_or(context.now) - signed(current);
                    set_deletion(&mut new, begun + signed(seconds), seconds);
                    graceful = true;
                }
                _ => return Plan::Wait,
            }
        } else {
            set_deletion(&mut new, context.now + signed(seconds), seconds);
            bump_generation(&mut new);
            graceful = true;
        }
    }
    let finalizers = finalizers_of(kind, old, options);
    meta::set_finalizers(&mut new, finalizers.iter().map(String::as_str));
    let pending = !finalizers.is_empty();
    if graceful {
        let seconds = meta::deletion_grace_period_seconds(&new).unwrap_or(0);
        return if pending || seconds > 0 { Plan::Mark(new) } else { Plan::Remove };
    }
    if !pending {
        return Plan::Remove;
    }
    if !meta::is_deleting(old) {
        bump_generation(&mut new);
        set_deletion(&mut new, context.now, 0);
    } else {
        let at = meta::deletion_timestamp(old).unwrap_or(context.now).min(context.now);
        set_deletion(&mut new, at, 0);
    }
    if new == *old { Plan::Wait } else { Plan::Mark(new) }
}

/// A namespace is first marked; it goes when its own finalizers are gone.
fn plan_namespace(context: &Context, old: &Value) -> Plan {
    let list = |value: &Value| value.as_array().is_some_and(|list| !list.is_empty());
    if !meta::is_deleting(old) {
        let mut new = old.clone();
        meta::set_deletion_timestamp(&mut new, Some(context.now));
        new["status"] = match new["status"].take() {
            Value::Object(mut status) => {
                status.insert("phase".to_owned(), json!("Terminating"));
                Value::Object(status)
            }
            _ => json!({"phase": "Terminating"}),
        };
        return Plan::Mark(new);
    }
    if list(&old["spec"]["finalizers"]) || meta::finalizers(old).next().is_some() { Plan::Wait } else { Plan::Remove }
}

/// The finalizers the object has for its deletion: its own, and those that the propagation asks for.
fn finalizers_of(kind: &Kind, old: &Value, options: &DeleteOptions) -> Vec<String> {
    let has = |name: &str| meta::has_finalizer(old, name);
    let by_default = if has(ORPHAN) {
        Propagation::Orphan
    } else if has(FOREGROUND) {
        Propagation::Foreground
    } else if kind.rules.propagation == trireme_kinds::Propagation::Orphan {
        Propagation::Orphan
    } else {
        Propagation::Background
    };
    let propagation = match options.orphan_dependents {
        Some(true) => Propagation::Orphan,
        Some(false) => Propagation::Background,
        None => options.propagation.unwrap_or(by_default),
    };
    let mut finalizers: Vec<String> =
        meta::finalizers(old).filter(|name| !matches!(*name, ORPHAN | FOREGROUND)).map(str::to_owned).collect();
    match propagation {
        Propagation::Orphan => finalizers.push(ORPHAN.to_owned()),
        Propagation::Foreground => finalizers.push(FOREGROUND.to_owned()),
        Propagation::Background => {}
    }
    finalizers
}

fn set_deletion(object: &mut Value, at: jiff::Timestamp, seconds: i64) {
    meta::set_deletion_timestamp(object, Some(at));
    meta::set_deletion_grace_period_seconds(object, Some(seconds));
}

fn bump_generation(object: &mut Value) {
    let generation = meta::generation(object);
    if generation > 0 {
        meta::set_generation(object, generation + 1);
    }
}

fn signed(seconds: i64) -> jiff::SignedDuration {
    jiff::SignedDuration::from_secs(seconds)
}

/// Kinds whose deletion answers with the object instead of a Status.
fn answers_with_object(kind: &Kind) -> bool {
    match kind.group.as_str() {
        "" => matches!(
            kind.plural.as_str(),
            "pods"
                | "services"
                | "serviceaccounts"
                | "podtemplates"
                | "resourcequotas"
                | "persistentvolumes"
                | "persistentvolumeclaims"
        ),
        "storage.k8s.io" => kind.plural != "csistoragecapacities",
        "resource.k8s.io" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use trireme_kinds::Registry;

    use super::*;
    use crate::auth::UserInfo;
    use crate::pipeline::RequestInfo;

    fn kind(group: &str, resource: &str) -> Arc<Kind> {
        Registry::builtin().by_resource(group, "v1", resource).unwrap()
    }

    fn context() -> Context {
        Context::new(RequestInfo::default(), UserInfo::default())
    }

    #[test]
    fn dependents_decide_on_finalizers() {
        let object = json!({"metadata": {"name": "a", "generation": 3}});
        let foreground = DeleteOptions { propagation: Some(Propagation::Foreground), ..DeleteOptions::default() };
        let context = context();
        let Plan::Mark(new) = plan(&context, &kind("apps", "deployments"), &object, &foreground) else { panic!() };
        assert_eq!(new["metadata"]["finalizers"], json!([FOREGROUND]));
        assert_eq!(new["metadata"]["generation"], 4);
        assert_eq!(new["metadata"]["deletionGracePeriodSeconds"], 0);
        assert_eq!(new["metadata"]["deletionTimestamp"], trireme_machinery::time::format(context.now));
        let background = DeleteOptions::default();
        assert!(matches!(plan(&context, &kind("apps", "deployments"), &object, &background), Plan::Remove));
        // The second attempt changes its mind about what happens to dependents.
        let Plan::Mark(new) = plan(&context, &kind("apps", "deployments"), &new, &background_orphan()) else {
            panic!()
        };
        assert_eq!(new["metadata"]["finalizers"], json!([ORPHAN]));
    }

    fn background_orphan() -> DeleteOptions {
        DeleteOptions { orphan_dependents: Some(true), ..DeleteOptions::default() }
    }

    #[test]
    fn a_namespace_waits_for_its_finalizers() {
        let context = context();
        let namespace =
            json!({"metadata": {"name": "a"}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
        let kind = kind("", "namespaces");
        let Plan::Mark(mut new) = plan(&context, &kind, &namespace, &DeleteOptions::default()) else { panic!() };
        assert_eq!(new["status"]["phase"], "Terminating");
        assert!(matches!(plan(&context, &kind, &new, &DeleteOptions::default()), Plan::Wait));
        new["spec"]["finalizers"] = json!([]);
        assert!(matches!(plan(&context, &kind, &new, &DeleteOptions::default()), Plan::Remove));
    }

    #[test]
    fn preconditions_name_the_kind() {
        let object = json!({"metadata": {"name": "a", "uid": "u", "resourceVersion": "7"}});
        let options = DeleteOptions { uid: Some("v".to_owned()), ..DeleteOptions::default() };
        let refusal = check_preconditions(&kind("", "configmaps"), &object, &options).unwrap_err();
        assert!(
            refusal
                .message
                .starts_with("Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (v)")
        );
    }
}
