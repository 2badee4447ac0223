//! DefaultIngressClass.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;
use trireme_kinds::Kind;
use trireme_machinery::meta;
use trireme_machinery::status::Status;

use super::{Attributes, Operation, Plugin};
use crate::pipeline::Objects;

const DEFAULT_CLASS: &str = "ingressclass.kubernetes.io/is-default-class";
const OLD_CLASS: &str = "kubernetes.io/ingress.class";

/// Gives an Ingress without a class the default one.
pub struct DefaultIngressClass {
    objects: Arc<dyn Objects>,
    classes: Arc<Kind>,
}

impl DefaultIngressClass {
    /// Reads `classes` from the cache.
    #[must_use]
    pub fn new(objects: Arc<dyn Objects>, classes: Arc<Kind>) -> Self {
        Self { objects, classes }
    }
}

#[async_trait]
impl Plugin for DefaultIngressClass {
    fn name(&self) -> &'static str {
        "DefaultIngressClass"
    }

    async fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if !attributes.is("networking.k8s.io", "ingresses") || attributes.operation != Operation::Create {
            return Ok(());
        }
        let ingress = attributes.object();
        if !ingress["spec"]["ingressClassName"].is_null() || meta::annotation(ingress, OLD_CLASS).is_some() {
            return Ok(());
        }
        let classes = self.objects.reader().list(&self.classes, None);
        let mut defaults: Vec<_> = classes
            .iter()
            .map(|class| class.value())
            .filter(|class| meta::annotation(class, DEFAULT_CLASS) == Some("true"))
            .collect();
        defaults.sort_by(|a, b| {
            meta::creation_timestamp(b).cmp(&meta::creation_timestamp(a)).then_with(|| meta::name(a).cmp(meta::name(b)))
        });
        if let (Some(class), Some(ingress)) = (defaults.first(), attributes.object.as_deref_mut()) {
            ingress["spec"]["ingressClassName"] = json!(meta::name(class));
        }
        Ok(())
    }
}
