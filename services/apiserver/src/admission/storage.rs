//! DefaultStorageClass, and StorageObjectInUseProtection: finalizers that keep what is in use.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;
use trireme_kinds::Kind;
use trireme_machinery::meta;
use trireme_machinery::status::Status;

use super::{Attributes, Operation, Plugin};
use crate::pipeline::Objects;

const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
const BETA_DEFAULT_CLASS: &str = "storageclass.beta.kubernetes.io/is-default-class";
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// Gives a claim without a class the default one.
pub struct DefaultStorageClass {
    objects: Arc<dyn Objects>,
    classes: Arc<Kind>,
}

impl DefaultStorageClass {
    /// Reads `classes` from the cache.
    #[must_use]
    pub fn new(objects: Arc<dyn Objects>, classes: Arc<Kind>) -> Self {
        Self { objects, classes }
    }

    /// The newest default class; of those as old, the first by name.
    fn default_class(&self) -> Option<String> {
        let classes = self.objects.reader().list(&self.classes, None);
        let mut defaults: Vec<_> = classes
            .iter()
            .map(|class| class.value())
            .filter(|class| {
                [DEFAULT_CLASS, BETA_DEFAULT_CLASS].iter().any(|key| meta::annotation(class, key) == Some("true"))
            })
            .collect();
        defaults.sort_by(|a, b| {
            meta::creation_timestamp(b).cmp(&meta::creation_timestamp(a)).then_with(|| meta::name(a).cmp(meta::name(b)))
        });
        defaults.first().map(|class| meta::name(class).to_owned())
    }
}

#[async_trait]
impl Plugin for DefaultStorageClass {
    fn name(&self) -> &'static str {
        "DefaultStorageClass"
    }

    async fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if !attributes.is("", "persistentvolumeclaims") || attributes.operation != Operation::Create {
            return Ok(());
        }
        let claim = attributes.object();
        if meta::annotation(claim, BETA_CLASS).is_some() || !claim["spec"]["storageClassName"].is_null() {
            return Ok(());
        }
        if let (Some(class), Some(claim)) = (self.default_class(), attributes.object.as_deref_mut()) {
            claim["spec"]["storageClassName"] = json!(class);
        }
        Ok(())
    }
}

/// Adds the finalizer that a controller takes away when nothing uses the object any more.
pub struct StorageObjectInUseProtection;

#[async_trait]
impl Plugin for StorageObjectInUseProtection {
    fn name(&self) -> &'static str {
        "StorageObjectInUseProtection"
    }

    async fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if attributes.operation != Operation::Create || !attributes.subresource.is_empty() {
            return Ok(());
        }
        let finalizer = match (attributes.kind.group.as_str(), attributes.kind.plural.as_str()) {
            ("", "persistentvolumes") => "kubernetes.io/pv-protection",
            ("", "persistentvolumeclaims") => "kubernetes.io/pvc-protection",
            ("storage.k8s.io", "volumeattributesclasses") => "kubernetes.io/vac-protection",
            _ => return Ok(()),
        };
        if let Some(object) = attributes.object.as_deref_mut() {
            meta::add_finalizer(object, finalizer);
        }
        Ok(())
    }
}
