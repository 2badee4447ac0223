//! The cause and the intent of a write (DESIGN 4).

use std::time::Duration;

use serde_json::{Map, Value};
use trireme_machinery::{meta, tree};
use trireme_telemetry::Cause;

use super::engine::Engine;
use super::{Context, Stored};
use crate::auth::UserInfo;

impl Engine {
    /// What is kept beside the version that `context` writes. `old` is the version before (None for a create), `new` the
    /// object it becomes (None for a delete).
    pub(crate) fn cause(
        &self,
        context: &Context,
        old: Option<(&Stored, &Value)>,
        new: Option<&Value>,
    ) -> Option<Cause> {
        let now = nanos(context.now);
        let trace = context.trace.filter(|_| context.client_traced || !may_infer(&context.user));
        if let Some(trace) = trace {
            let mut cause = Cause::intent(trace, now);
            if let (Some((before, old)), Some(new)) = (old, new)
                && !changes_intent(old, new)
            {
                let kept = before.cause.as_deref().copied().unwrap_or_default();
                (cause.intent, cause.intent_time) = (kept.intent, kept.intent_time);
            }
            return Some(cause);
        }
        self.infer(context, old, new, now)
    }

    /// A write without a trace takes the object's intent, else its owner's, while that is young.
    fn infer(&self, context: &Context, old: Option<(&Stored, &Value)>, new: Option<&Value>, now: i64) -> Option<Cause> {
        context.trace?;
        let young = |cause: &Cause| cause.intent.is_some() && now - cause.intent_time <= window(self.trace_window);
        let current = new.or(old.map(|(_, value)| value));
        let eligible = is_component(&context.user) || current.is_some_and(|object| meta::controller(object).is_some());
        let object = old.and_then(|(stored, _)| stored.cause.as_deref().copied()).filter(young);
        let found = object.or_else(|| self.owner_cause(current?).filter(young)).filter(|_| eligible);
        match found {
            Some(found) => Some(Cause {
                cause: found.intent,
                intent: found.intent,
                cause_time: now,
                intent_time: found.intent_time,
                inferred: true,
            }),
            None => context.trace.map(|trace| Cause::intent(trace, now)),
        }
    }

    /// The cause of the object's controller.
    fn owner_cause(&self, object: &Value) -> Option<Cause> {
        let owner = meta::controller(object)?;
        let (group, version) = trireme_machinery::gvk::split_api_version(owner.api_version);
        let kind = self.kinds.by_kind(group, version, owner.kind)?;
        let namespace = if kind.namespaced { meta::namespace(object) } else { "" };
        let stored = self.cache.get(&kind.storage, &self.key(&kind, namespace, owner.name))?;
        (*stored.uid == *owner.uid).then(|| stored.cause.as_deref().copied()).flatten()
    }
}

/// Whether a write without a trace by this user is taken for a reaction: components and service accounts.
fn may_infer(user: &UserInfo) -> bool {
    user.node_name().is_some() || user.service_account().is_some() || is_component(user)
}

/// Identities that carry a trace on, because they react to objects.
pub(super) fn is_component(user: &UserInfo) -> bool {
    let in_kube_system = user.service_account().is_some_and(|(namespace, _)| namespace == "kube-system");
    let known = matches!(
        user.name.as_str(),
        "system:kube-scheduler" | "system:kube-controller-manager" | "system:kube-proxy" | "system:apiserver"
    );
    known || in_kube_system || user.node_name().is_some()
}

/// Whether more changed than the status, managed fields and what the API server counts.
fn changes_intent(old: &Value, new: &Value) -> bool {
    fn wanted<'a>(map: Option<&'a Map<String, Value>>, without: &[&str]) -> Vec<(&'a String, &'a Value)> {
        map.into_iter().flatten().filter(|(key, _)| !without.contains(&key.as_str())).collect()
    }
    let metadata = ["managedFields", "resourceVersion", "generation"];
    wanted(tree::map(old, &["metadata"]), &metadata) != wanted(tree::map(new, &["metadata"]), &metadata)
        || wanted(old.as_object(), &["status", "metadata"]) != wanted(new.as_object(), &["status", "metadata"])
}

fn nanos(at: jiff::Timestamp) -> i64 {
    i64::try_from(at.as_nanosecond()).unwrap_or(i64::MAX)
}

fn window(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn status_and_bookkeeping_are_no_intent() {
        let object = json!({"metadata": {"name": "a", "generation": 1}, "spec": {"x": 1}, "status": {"y": 1}});
        let mut other = object.clone();
        other["status"]["y"] = json!(2);
        other["metadata"]["managedFields"] = json!([{}]);
        assert!(!changes_intent(&object, &other));
        other["metadata"]["labels"] = json!({"a": "b"});
        assert!(changes_intent(&object, &other));
        other = object.clone();
        other["spec"]["x"] = json!(2);
        assert!(changes_intent(&object, &other));
    }

    #[test]
    fn components_are_known_by_name() {
        assert!(is_component(&UserInfo::new("system:serviceaccount:kube-system:deployment-controller", &[])));
        assert!(is_component(&UserInfo::new("system:node:n1", &["system:nodes"])));
        assert!(!is_component(&UserInfo::new("alice", &[])));
        assert!(!is_component(&UserInfo::new("system:serviceaccount:default:builder", &[])));
    }
}
