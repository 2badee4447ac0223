//! ServiceAccount: every Pod runs as an account, with that account's token and pull secrets.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use trireme_kinds::Kind;
use trireme_machinery::status::Status;
use trireme_machinery::{meta, names};

use super::pod::{self, items, text};
use super::{Attributes, Operation, Plugin};
use crate::pipeline::Objects;

const DEFAULT: &str = "default";
const VOLUME: &str = "kube-api-access-";
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const ENFORCE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";
/// How long the default account of a new namespace is waited for: a controller makes it.
const DEFAULT_ATTEMPTS: u32 = 10;
const RETRY: Duration = Duration::from_millis(100);

/// The plugin.
pub struct ServiceAccount {
    objects: Arc<dyn Objects>,
    accounts: Arc<Kind>,
}

impl ServiceAccount {
    /// Reads `accounts` from the cache, and from the store before it refuses for absence.
    #[must_use]
    pub fn new(objects: Arc<dyn Objects>, accounts: Arc<Kind>) -> Self {
        Self { objects, accounts }
    }

    async fn account(&self, attributes: &Attributes<'_>, name: &str) -> Result<Value, Status> {
        let namespace = attributes.namespace;
        if let Some(account) = self.objects.reader().get(&self.accounts, namespace, name) {
            return Ok(account.value());
        }
        let attempts = if name == DEFAULT { DEFAULT_ATTEMPTS } else { 1 };
        for attempt in 0..attempts {
            if attempt > 0 {
                tokio::time::sleep(RETRY).await;
            }
            match self.objects.get(&self.accounts, namespace, name).await {
                Ok(account) => return Ok(account.value()),
                Err(status) if status.is_not_found() => {}
                Err(status) => return Err(attributes.forbidden(lookup_failed(namespace, name, &status.message))),
            }
        }
        let absent = format!("serviceaccount \"{name}\" not found");
        Err(attributes.forbidden(lookup_failed(namespace, name, &absent)))
    }

    async fn check_secrets(
        &self,
        attributes: &Attributes<'_>,
        spec: &Value,
        lists: &[&'static str],
    ) -> Result<(), Status> {
        let name = text(spec, "serviceAccountName");
        if name.is_empty() {
            let pod = meta::name(attributes.object());
            let why = format!("no service account specified for pod {}/{pod}", attributes.namespace);
            return Err(attributes.forbidden(why));
        }
        let account = self.account(attributes, name).await?;
        let enforced = meta::annotation(&account, ENFORCE_SECRETS)
            .is_some_and(|v| matches!(v, "true" | "True" | "TRUE" | "1" | "t" | "T"));
        if !enforced {
            return Ok(());
        }
        limit_secrets(&account, spec, lists).map_err(|why| attributes.forbidden(why))
    }
}

#[async_trait]
impl Plugin for ServiceAccount {
    fn name(&self) -> &'static str {
        "ServiceAccount"
    }

    async fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if !attributes.is("", "pods")
            || attributes.operation != Operation::Create
            || pod::is_mirror(attributes.object())
        {
            return Ok(());
        }
        let name = match text(&attributes.object()["spec"], "serviceAccountName") {
            "" => DEFAULT.to_owned(),
            name => name.to_owned(),
        };
        let account = self.account(attributes, &name).await?;
        let Some(spec) = attributes.object.as_deref_mut().and_then(|pod| pod.get_mut("spec")) else { return Ok(()) };
        spec["serviceAccountName"] = json!(name);
        spec["serviceAccount"] = json!(name);
        let automount = spec["automountServiceAccountToken"].as_bool();
        if automount.or(account["automountServiceAccountToken"].as_bool()).unwrap_or(true) {
            mount_token(spec);
        }
        if items(&spec["imagePullSecrets"]).next().is_none() && items(&account["imagePullSecrets"]).next().is_some() {
            spec["imagePullSecrets"] = account["imagePullSecrets"].clone();
        }
        Ok(())
    }

    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let spec = &attributes.object()["spec"];
        if attributes.is_sub("", "pods", "ephemeralcontainers") && attributes.operation == Operation::Update {
            return self.check_secrets(attributes, spec, &["ephemeralContainers"]).await;
        }
        if !attributes.is("", "pods") || attributes.operation != Operation::Create {
            return Ok(());
        }
        if pod::is_mirror(attributes.object()) {
            return check_mirror(spec).map_err(|why| attributes.forbidden(why));
        }
        self.check_secrets(attributes, spec, &["initContainers", "containers"]).await
    }
}

fn lookup_failed(namespace: &str, name: &str, why: &str) -> String {
    format!("error looking up service account {namespace}/{name}: {why}")
}

fn check_mirror(spec: &Value) -> Result<(), &'static str> {
    if !text(spec, "serviceAccountName").is_empty() {
        return Err("a mirror pod may not reference service accounts");
    }
    if pod::uses_secrets(spec) {
        return Err("a mirror pod may not reference secrets");
    }
    let projected = items(&spec["volumes"]).flat_map(|volume| items(&volume["projected"]["sources"]));
    if projected.into_iter().any(|source| source["serviceAccountToken"].is_object()) {
        return Err("a mirror pod may not use ServiceAccountToken volume projections");
    }
    Ok(())
}

/// Mounts a projected volume of token, CA and namespace into every container that has nothing in that place.
fn mount_token(spec: &mut Value) {
    let existing = items(&spec["volumes"]).map(|volume| text(volume, "name")).find(|name| name.starts_with(VOLUME));
    let (volume, is_new) = match existing {
        Some(name) => (name.to_owned(), false),
        None => (names::generate(VOLUME), true),
    };
    let mut used = false;
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            if items(&container["volumeMounts"]).any(|mount| mount["mountPath"] == MOUNT_PATH) {
                continue;
            }
            let mount = json!({"name": volume, "readOnly": true, "mountPath": MOUNT_PATH});
            push(&mut container["volumeMounts"], mount);
            used = true;
        }
    }
    if is_new && used {
        push(&mut spec["volumes"], json!({"name": volume, "projected": token_source()}));
    }
}

fn token_source() -> Value {
    json!({
        "defaultMode": 0o644,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [
                {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
            ]}},
        ],
    })
}

fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) => items.push(item),
        other => *other = Value::Array(vec![item]),
    }
}

/// Refuses secrets that the account does not list, where the account asks for that.
fn limit_secrets(account: &Value, spec: &Value, lists: &[&'static str]) -> Result<(), String> {
    let owner = meta::name(account);
    let listed = |list: &str, name: &str| items(&account[list]).any(|secret| secret["name"] == name);
    let full = lists.contains(&"containers");
    if full {
        for volume in items(&spec["volumes"]).filter(|volume| volume["secret"].is_object()) {
            let secret = text(&volume["secret"], "secretName");
            if !listed("secrets", secret) {
                return Err(format!(
                    "volume with secret.secretName=\"{secret}\" is not allowed because service account {owner} does not reference that secret"
                ));
            }
        }
    }
    for (list, container) in pod::containers(spec).filter(|(list, _)| lists.contains(list)) {
        let what = match list {
            "initContainers" => "init container",
            "ephemeralContainers" => "ephemeral container",
            _ => "container",
        };
        let name = text(container, "name");
        let refuse = |place: String, secret: &str| {
            format!(
                "{what} {name} with {place} referencing secret.secretName=\"{secret}\" is not allowed \
                 because service account {owner} does not reference that secret"
            )
        };
        for variable in items(&container["env"]) {
            let reference = &variable["valueFrom"]["secretKeyRef"];
            if reference.is_object() && !listed("secrets", text(reference, "name")) {
                return Err(refuse(format!("envVar {}", text(variable, "name")), text(reference, "name")));
            }
        }
        for source in items(&container["envFrom"]) {
            let reference = &source["secretRef"];
            if reference.is_object() && !listed("secrets", text(reference, "name")) {
                return Err(refuse("envFrom".to_owned(), text(reference, "name")));
            }
        }
    }
    if full {
        for (index, secret) in items(&spec["imagePullSecrets"]).enumerate() {
            let name = text(secret, "name");
            if !listed("imagePullSecrets", name) {
                return Err(format!(
                    "imagePullSecrets[{index}].name=\"{name}\" is not allowed because service account {owner} does not reference that imagePullSecret"
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_mounted_once() {
        let mut spec = json!({"containers": [{"name": "a"}, {"name": "b", "volumeMounts": [{"name": "x", "mountPath": MOUNT_PATH}]}]});
        mount_token(&mut spec);
        let volume = spec["volumes"][0]["name"].as_str().unwrap().to_owned();
        assert!(volume.starts_with(VOLUME) && volume.len() == VOLUME.len() + 5, "{volume}");
        assert_eq!(spec["containers"][0]["volumeMounts"][0]["name"], volume.as_str());
        assert_eq!(spec["containers"][1]["volumeMounts"].as_array().unwrap().len(), 1);
        mount_token(&mut spec);
        assert_eq!(spec["volumes"].as_array().unwrap().len(), 1, "a second run adds nothing");
    }

    #[test]
    fn accounts_may_limit_secrets() {
        let account = json!({"metadata": {"name": "sa"}, "secrets": [{"name": "good"}]});
        let spec = json!({"containers": [{"name": "c", "envFrom": [{"secretRef": {"name": "bad"}}]}]});
        let why = limit_secrets(&account, &spec, &["initContainers", "containers"]).unwrap_err();
        assert!(why.starts_with("container c with envFrom referencing secret.secretName=\"bad\""), "{why}");
    }
}
