//! PodSecurity: the Pod Security Standards, as a namespace's labels ask for them.
//!
//! `enforce` refuses Pods; `warn` and `audit` speak, and look at the Pods that workloads will make as well.

mod baseline;
mod restricted;
mod standard;
mod words;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};
use trireme_kinds::Kind;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::meta;
use trireme_machinery::path::Path;
use trireme_machinery::status::Status;

use super::{Attributes, Operation, Plugin};
use crate::auth::user::quoted;
use crate::pipeline::Objects;
use standard::{Level, Policy};

const PREFIX: &str = "pod-security.kubernetes.io/";
const MODES: [&str; 3] = ["enforce", "audit", "warn"];

/// The plugin.
pub struct PodSecurity {
    objects: Arc<dyn Objects>,
    namespaces: Arc<Kind>,
}

/// What a namespace asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Policies {
    enforce: Policy,
    audit: Policy,
    warn: Policy,
}

impl PodSecurity {
    /// Reads `namespaces` from the cache, and from the store where it lacks one.
    #[must_use]
    pub fn new(objects: Arc<dyn Objects>, namespaces: Arc<Kind>) -> Self {
        Self { objects, namespaces }
    }

    /// What the namespace asks for. One that is not there, or can't be read, is no namespace that asks for nothing.
    async fn policies(&self, namespace: &str) -> Result<Policies, Status> {
        let stored = match self.objects.reader().get(&self.namespaces, "", namespace) {
            Some(stored) => stored,
            None => self.objects.get(&self.namespaces, "", namespace).await?,
        };
        let labels = stored.labels.iter().map(|(k, v)| (k.to_string(), Value::String(v.to_string()))).collect();
        Ok(policies(&labels).0)
    }
}

/// The policies in labels, and what is wrong with them. What is wrong counts as the strictest for `enforce`, as none else.
fn policies(labels: &Map<String, Value>) -> (Policies, ErrorList) {
    let mut errors = ErrorList::new();
    let mut read = |mode: &str| {
        let text = |key: &str| labels.get(key).and_then(Value::as_str);
        let path = Path::new("metadata").child("labels");
        let mut policy = Policy::default();
        let key = format!("{PREFIX}{mode}");
        if let Some(value) = text(&key) {
            match Level::parse(value) {
                Some(level) => policy.level = level,
                None => {
                    errors.push(field::invalid(
                        &path.key(&key),
                        value,
                        "must be one of privileged, baseline, restricted",
                    ));
                    policy.level = if mode == "enforce" { Level::Restricted } else { Level::Privileged };
                }
            }
        }
        let key = format!("{PREFIX}{mode}-version");
        if let Some(value) = text(&key)
            && !policy.set_version(value)
        {
            errors.push(field::invalid(&path.key(&key), value, "must be \"latest\" or \"v1.x\""));
        }
        policy
    };
    let [enforce, audit, warn] = MODES.map(&mut read);
    (Policies { enforce, audit, warn }, errors)
}

/// The Pod that an object is, or will make.
fn template<'a>(kind: &Kind, object: &'a Value) -> Option<(&'a Value, &'a Value)> {
    let at = |path: &str| object.pointer(path);
    let (meta, spec) = match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => (at("/metadata"), at("/spec")),
        ("", "podtemplates") => (at("/template/metadata"), at("/template/spec")),
        ("", "replicationcontrollers")
        | ("apps", "replicasets" | "deployments" | "statefulsets" | "daemonsets")
        | ("batch", "jobs") => (at("/spec/template/metadata"), at("/spec/template/spec")),
        ("batch", "cronjobs") => {
            (at("/spec/jobTemplate/spec/template/metadata"), at("/spec/jobTemplate/spec/template/spec"))
        }
        _ => return None,
    };
    Some((meta.unwrap_or(&Value::Null), spec?))
}

#[async_trait]
impl Plugin for PodSecurity {
    fn name(&self) -> &'static str {
        "PodSecurity"
    }

    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let writes = matches!(attributes.operation, Operation::Create | Operation::Update);
        if !writes || attributes.object().is_null() {
            return Ok(());
        }
        if attributes.is("", "namespaces") {
            return check_namespace(attributes);
        }
        let sub = attributes.subresource;
        let is_pod = attributes.kind.group.is_empty() && attributes.kind.plural == "pods";
        let holds_containers = is_pod && matches!(sub, "ephemeralcontainers" | "resize");
        if !sub.is_empty() && !holds_containers {
            return Ok(());
        }
        let Some((meta, spec)) = template(attributes.kind, attributes.object()) else { return Ok(()) };
        if attributes.operation == Operation::Update {
            let before = attributes.old.and_then(|old| template(attributes.kind, old));
            if before.is_some_and(|(_, old)| old == spec) {
                return Ok(());
            }
        }
        let policies = match self.policies(attributes.namespace).await {
            Ok(policies) => policies,
            Err(why) => {
                let failed = format!("failed to lookup namespace {}", quoted(attributes.namespace));
                if is_pod {
                    tracing::warn!(namespace = attributes.namespace, why = why.message, "PodSecurity has no namespace");
                    return Err(Status::internal(failed));
                }
                // Nothing is refused here, so nothing slips through.
                attributes.context.annotate("pod-security.kubernetes.io/error", format!("{failed}: {}", why.message));
                return Ok(());
            }
        };
        if is_pod && let Err(why) = policies.enforce.check(meta, spec) {
            let policy = &policies.enforce;
            return Err(attributes.forbidden(format!("violates PodSecurity \"{policy}\": {why}")));
        }
        if let Err(why) = policies.audit.check(meta, spec) {
            let policy = &policies.audit;
            let text = format!("would violate PodSecurity \"{policy}\": {why}");
            attributes.context.annotate("pod-security.kubernetes.io/audit-violations", text);
        }
        // Who was refused, or would be, need not be warned of the same.
        if !(is_pod && policies.warn == policies.enforce)
            && let Err(why) = policies.warn.check(meta, spec)
        {
            let policy = &policies.warn;
            attributes.context.warn(format!("would violate PodSecurity \"{policy}\": {why}"));
        }
        Ok(())
    }
}

/// A namespace's labels must say something that there is.
fn check_namespace(attributes: &Attributes<'_>) -> Result<(), Status> {
    let labels = |object: &Value| meta::labels(object).cloned().unwrap_or_default();
    let (_, errors) = policies(&labels(attributes.object()));
    let known = attributes.old.map(|old| policies(&labels(old)).1).unwrap_or_default();
    // What was wrong before may stay, so that the object can be changed at all.
    if errors.is_empty() || errors == known {
        return Ok(());
    }
    Err(Status::invalid(&attributes.kind.gvk(), meta::name(attributes.object()), errors))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::testing::Behind;
    use serde_json::json;

    fn restricted(spec: Value) -> String {
        let policy = Policy { level: Level::Restricted, minor: None };
        policy.check(&Value::Null, &spec).unwrap_err()
    }

    #[test]
    fn refusals_read_like_upstream() {
        let plain = json!({"containers": [{"name": "c"}], "volumes": [{"name": "v", "hostPath": {"path": "/x"}}]});
        assert_eq!(
            restricted(plain),
            "allowPrivilegeEscalation != false (container \"c\" must set securityContext.allowPrivilegeEscalation=false), \
             unrestricted capabilities (container \"c\" must set securityContext.capabilities.drop=[\"ALL\"]), \
             restricted volume types (volume \"v\" uses restricted volume type \"hostPath\"), \
             runAsNonRoot != true (pod or container \"c\" must set securityContext.runAsNonRoot=true), \
             seccompProfile (pod or container \"c\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")"
        );
    }

    #[test]
    fn a_good_pod_passes() {
        let policy = Policy { level: Level::Restricted, minor: None };
        let spec = json!({
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "c", "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}],
        });
        assert_eq!(policy.check(&Value::Null, &spec), Ok(()));
    }

    async fn create(objects: Arc<dyn Objects>) -> Result<(), Status> {
        let registry = trireme_kinds::Registry::builtin();
        let plugin = PodSecurity::new(objects, registry.by_resource("", "v1", "namespaces").unwrap());
        let context = crate::pipeline::Context::internal("test");
        let mut pod = json!({"metadata": {"name": "p"}, "spec": {"hostPID": true, "containers": [{"name": "c"}]}});
        let attributes = Attributes {
            context: &context,
            kind: &registry.by_resource("", "v1", "pods").unwrap(),
            operation: Operation::Create,
            subresource: "",
            namespace: "new",
            name: "",
            object: Some(&mut pod),
            old: None,
            options: &Value::Null,
            dry_run: false,
        };
        plugin.validate(&attributes).await
    }

    #[tokio::test]
    async fn a_namespace_that_the_cache_lacks_is_read_from_the_store() {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "new", "labels": {"pod-security.kubernetes.io/enforce": "baseline"}},
        });
        let refused = create(Behind::unseen(vec![namespace])).await.unwrap_err();
        assert!(refused.message.contains("violates PodSecurity \"baseline:latest\": host namespaces"), "{refused:?}");
        let refused = create(Behind::unseen(Vec::new())).await.unwrap_err();
        assert!(refused.message.contains("failed to lookup namespace \"new\""), "{refused:?}");
    }

    #[test]
    fn labels_choose_policies() {
        let labels = json!({"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/enforce-version": "v1.30"});
        let (policies, errors) = policies(labels.as_object().unwrap());
        assert!(errors.is_empty());
        assert_eq!(policies.enforce.to_string(), "baseline:v1.30");
        assert_eq!(policies.warn.level, Level::Privileged);
    }
}
