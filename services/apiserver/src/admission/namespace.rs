//! NamespaceLifecycle: nothing new where a namespace is absent or going, and some namespaces stay for ever.

use std::sync::Arc;

use async_trait::async_trait;
use trireme_kinds::Kind;
use trireme_machinery::status::{Status, cause};

use super::{Attributes, Operation, Plugin};
use crate::pipeline::Objects;

/// Namespaces that nobody may delete.
pub const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The plugin.
pub struct NamespaceLifecycle {
    objects: Arc<dyn Objects>,
    namespaces: Arc<Kind>,
}

impl NamespaceLifecycle {
    /// Reads `namespaces` from the cache, and from the store before it refuses for absence.
    #[must_use]
    pub fn new(objects: Arc<dyn Objects>, namespaces: Arc<Kind>) -> Self {
        Self { objects, namespaces }
    }
}

#[async_trait]
impl Plugin for NamespaceLifecycle {
    fn name(&self) -> &'static str {
        "NamespaceLifecycle"
    }

    async fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let is_namespace = attributes.kind.group.is_empty() && attributes.kind.plural == "namespaces";
        if is_namespace {
            if attributes.operation == Operation::Delete && IMMORTAL.contains(&attributes.name) {
                let resource = attributes.kind.group_resource();
                return Err(Status::forbidden(&resource, attributes.name, "this namespace may not be deleted"));
            }
            return Ok(());
        }
        let review = attributes.kind.plural == "localsubjectaccessreviews";
        if attributes.namespace.is_empty() || attributes.operation != Operation::Create || review {
            return Ok(());
        }
        let cached = self.objects.reader().get(&self.namespaces, "", attributes.namespace);
        let namespace = match cached {
            Some(namespace) => namespace,
            // The cache may be behind a namespace that was just made.
            None => self.objects.get(&self.namespaces, "", attributes.namespace).await?,
        };
        if namespace.value()["status"]["phase"] != "Terminating" {
            return Ok(());
        }
        let name = attributes.namespace;
        let why = format!("unable to create new content in namespace {name} because it is being terminated");
        let message = format!("namespace {name} is being terminated");
        Err(attributes.forbidden(why).with_cause(cause::NAMESPACE_TERMINATING, message, "metadata.namespace"))
    }
}
