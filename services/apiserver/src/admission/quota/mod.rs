//! ResourceQuota: what a namespace may use in all.
//!
//! Usage is charged before the object is written, in the quota's status, by compare and swap: of two writes that would
//! both still fit alone, one is refused. A controller counts anew and gives back what was charged for writes that failed.

mod scopes;
mod usage;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use trireme_kinds::Kind;
use trireme_machinery::meta;
use trireme_machinery::quantity::Quantity;
use trireme_machinery::status::Status;

use super::limits::Limits;
use super::resources::{self, Resources};
use super::{Attributes, Operation, Plugin};
use crate::pipeline::Objects;

/// The plugin.
pub struct ResourceQuota {
    objects: Arc<dyn Objects>,
    quotas: Arc<Kind>,
    limits: Limits,
}

impl ResourceQuota {
    /// Charges `quotas`.
    #[must_use]
    pub fn new(objects: Arc<dyn Objects>, quotas: Arc<Kind>) -> Self {
        Self { limits: Limits::new(objects.clone(), quotas.clone()), objects, quotas }
    }

    /// What the write costs this quota; nothing if the quota does not look at it.
    fn charge(attributes: &Attributes<'_>, quota: &Value) -> Result<Option<Resources>, Status> {
        let object = attributes.object();
        let hard = resources::read(&quota["status"]["hard"]);
        let of = |object: &Value| usage::of(attributes.kind, attributes.namespace, object);
        let used = of(object);
        let relevant: Resources =
            used.iter().filter(|(name, _)| hard.contains_key(*name)).map(|(n, q)| (n.clone(), q.clone())).collect();
        let watched: Vec<&str> =
            hard.keys().map(String::as_str).filter(|name| usage::counts(attributes.kind, name)).collect();
        if watched.is_empty() || !scopes::matches(attributes.kind, quota, object) {
            return Ok(None);
        }
        let name = meta::name(quota);
        if attributes.kind.plural == "pods"
            && let Some(missing) = usage::missing(&watched, &object["spec"])
        {
            return Err(attributes.forbidden(format!("failed quota: {name}: must specify {missing}")));
        }
        let known = resources::read(&quota["status"]["used"]);
        if watched.iter().any(|resource| !known.contains_key(*resource)) {
            let names = watched.join(",");
            return Err(attributes.forbidden(format!("status unknown for quota: {name}, resources: {names}")));
        }
        let mut cost = relevant;
        if let Some(old) = attributes.old.filter(|old| scopes::matches(attributes.kind, quota, old)) {
            for (resource, before) in of(old) {
                if let Some(now) = cost.get_mut(&resource) {
                    *now = now.sub(&before);
                }
            }
        }
        cost.retain(|_, amount| !amount.is_zero() && !amount.is_negative());
        Ok((!cost.is_empty()).then_some(cost))
    }

    /// The quota's usage with the cost on top, if that fits.
    fn with_cost(attributes: &Attributes<'_>, quota: &Value, cost: &Resources) -> Result<Resources, Status> {
        let (hard, mut used) = (resources::read(&quota["status"]["hard"]), resources::read(&quota["status"]["used"]));
        let before = used.clone();
        resources::add(&mut used, cost);
        let exceeded: Vec<&String> =
            cost.keys().filter(|name| hard.get(*name).is_some_and(|hard| used[*name] > *hard)).collect();
        if exceeded.is_empty() {
            return Ok(used);
        }
        let show = |amounts: &Resources| {
            let shown =
                exceeded.iter().map(|name| format!("{name}={}", amounts.get(*name).unwrap_or(&Quantity::zero())));
            shown.collect::<Vec<_>>().join(",")
        };
        let (asked, had, limited) = (show(cost), show(&before), show(&hard));
        let name = meta::name(quota);
        Err(attributes
            .forbidden(format!("exceeded quota: {name}, requested: {asked}, used: {had}, limited: {limited}")))
    }
}

#[async_trait]
impl Plugin for ResourceQuota {
    fn name(&self) -> &'static str {
        "ResourceQuota"
    }

    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let resized = attributes.is_sub("", "pods", "resize");
        let looked_at = attributes.subresource.is_empty() || resized;
        let writes = matches!(attributes.operation, Operation::Create | Operation::Update);
        if !looked_at || !writes || attributes.namespace.is_empty() || attributes.object().is_null() {
            return Ok(());
        }
        if attributes.operation == Operation::Update && !usage::changes(attributes.kind) && !resized {
            return Ok(());
        }
        let quotas = self.limits.of(attributes.namespace).await?;
        let mut charges = Vec::new();
        for quota in quotas.iter().map(|quota| quota.value()) {
            if let Some(cost) = Self::charge(attributes, &quota)? {
                Self::with_cost(attributes, &quota, &cost)?;
                charges.push((meta::name(&quota).to_owned(), cost));
            }
        }
        if attributes.dry_run {
            return Ok(());
        }
        for (name, cost) in charges {
            let mut change = |quota: &mut Value| {
                let used = Self::with_cost(attributes, quota, &cost)?;
                quota["status"]["used"] = resources::write(&used);
                Ok(())
            };
            let charged = self
                .objects
                .update(attributes.context, &self.quotas, attributes.namespace, &name, "status", &mut change)
                .await;
            match charged {
                Ok(_) => {}
                // A quota that is gone limits nothing.
                Err(status) if status.is_not_found() => {}
                Err(status) => return Err(status),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::testing::Behind;
    use serde_json::json;

    #[tokio::test]
    async fn a_quota_that_the_cache_lacks_is_read_from_the_store() {
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "new"},
            "spec": {"hard": {"pods": "1"}}, "status": {"hard": {"pods": "1"}, "used": {"pods": "1"}},
        });
        let registry = trireme_kinds::Registry::builtin();
        let quotas = registry.by_resource("", "v1", "resourcequotas").unwrap();
        let plugin = ResourceQuota::new(Behind::unseen(vec![quota]), quotas);
        let context = crate::pipeline::Context::internal("test");
        let mut pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}});
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
        let refused = plugin.validate(&attributes).await.unwrap_err();
        assert!(
            refused.message.contains("exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"),
            "{refused:?}"
        );
    }
}
