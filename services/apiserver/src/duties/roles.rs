//! The default roles and bindings hold at least what they should.
//!
//! What an administrator added stays; what is missing comes back, unless the object's annotation says to leave it alone. A
//! binding to another role than it should be is made anew, since its role can't be changed.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use trireme_kinds::Kind;
use trireme_machinery::meta;
use trireme_machinery::status::Status;

use super::ensure::{ensure_all, merge_map};
use super::{Duty, Surroundings, policy};
use crate::auth::rbac::{GROUP, PolicyRule, covers};
use crate::error::Error;
use crate::pipeline::{Context, Objects};

const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// The duty's health check.
pub const CHECK: &str = "poststarthook/rbac/bootstrap-roles";

/// The duty.
pub struct Roles {
    objects: Arc<dyn Objects>,
    cluster_roles: Arc<Kind>,
    roles: Arc<Kind>,
    cluster_bindings: Arc<Kind>,
    bindings: Arc<Kind>,
}

impl Roles {
    /// Keeps roles and bindings up.
    pub fn new(around: &Surroundings) -> Result<Self, Error> {
        Ok(Self {
            objects: around.objects.clone(),
            cluster_roles: around.kind(GROUP, "clusterroles")?,
            roles: around.kind(GROUP, "roles")?,
            cluster_bindings: around.kind(GROUP, "clusterrolebindings")?,
            bindings: around.kind(GROUP, "rolebindings")?,
        })
    }

    /// Removes a default binding that gives another role.
    async fn replace_wrong_binding(&self, kind: &Arc<Kind>, wanted: &Value) -> Result<(), Status> {
        let (namespace, name) = (meta::namespace(wanted), meta::name(wanted));
        let Some(stored) = self.objects.reader().get(kind, namespace, name) else { return Ok(()) };
        let value = stored.value();
        if is_left_alone(&value) || value["roleRef"] == wanted["roleRef"] {
            return Ok(());
        }
        let context = Context::internal(self.check());
        let options = json!({"preconditions": {"uid": &*stored.uid}});
        match self.objects.delete(&context, kind, namespace, name, &options).await {
            Ok(_) => Ok(()),
            Err(status) if status.is_not_found() || status.is_conflict() => Ok(()),
            Err(status) => Err(status),
        }
    }
}

#[async_trait]
impl Duty for Roles {
    fn check(&self) -> &'static str {
        CHECK
    }

    fn rhythm(&self) -> Duration {
        Duration::from_secs(600)
    }

    async fn run(&self) -> Result<(), Status> {
        let policy = policy::roles();
        let roles = policy.iter().map(policy::Role::object).map(|object| {
            let kind = if meta::namespace(&object).is_empty() { &self.cluster_roles } else { &self.roles };
            (kind.clone(), object)
        });
        ensure_all(&self.objects, self.check(), roles.collect(), amend_role).await?;
        let bindings: Vec<(Arc<Kind>, Value)> = policy::bindings()
            .iter()
            .map(policy::Binding::object)
            .map(|object| {
                let kind = if meta::namespace(&object).is_empty() { &self.cluster_bindings } else { &self.bindings };
                (kind.clone(), object)
            })
            .collect();
        for (kind, object) in &bindings {
            self.replace_wrong_binding(kind, object).await?;
        }
        ensure_all(&self.objects, self.check(), bindings, amend_binding).await
    }
}

fn is_left_alone(object: &Value) -> bool {
    meta::annotation(object, AUTOUPDATE) == Some("false")
}

fn rules(role: &Value) -> Vec<PolicyRule> {
    role.get("rules").and_then(|rules| Vec::deserialize(rules).ok()).unwrap_or_default()
}

fn amend_role(wanted: &Value, role: &mut Value) {
    if is_left_alone(role) {
        return;
    }
    merge_map(wanted, role, "labels");
    merge_map(wanted, role, "annotations");
    if wanted.get("aggregationRule").is_some() {
        role["aggregationRule"] = wanted["aggregationRule"].clone();
        return;
    }
    let mut has = rules(role);
    let missing: Vec<PolicyRule> =
        rules(wanted).into_iter().filter(|rule| covers(&has, std::slice::from_ref(rule)).is_err()).collect();
    if !missing.is_empty() {
        has.extend(missing);
        role["rules"] = json!(has);
    }
}

fn amend_binding(wanted: &Value, binding: &mut Value) {
    if is_left_alone(binding) {
        return;
    }
    merge_map(wanted, binding, "labels");
    merge_map(wanted, binding, "annotations");
    for subject in wanted["subjects"].as_array().into_iter().flatten() {
        match &mut binding["subjects"] {
            Value::Array(subjects) if subjects.contains(subject) => {}
            Value::Array(subjects) => subjects.push(subject.clone()),
            other => *other = json!([subject]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_comes_back_and_what_was_added_stays() {
        let wanted = json!({"metadata": {"labels": {"a": "b"}}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]});
        let mut role =
            json!({"metadata": {}, "rules": [{"verbs": ["list"], "apiGroups": [""], "resources": ["nodes"]}]});
        amend_role(&wanted, &mut role);
        assert_eq!(role["rules"].as_array().unwrap().len(), 2);
        let before = role.clone();
        amend_role(&wanted, &mut role);
        assert_eq!(role, before, "a second run changes nothing");
        let mut alone = json!({"metadata": {"annotations": {AUTOUPDATE: "false"}}, "rules": []});
        amend_role(&wanted, &mut alone);
        assert!(rules(&alone).is_empty());
    }
}
