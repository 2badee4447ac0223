//! Kinds that come as bodies and answers of subresources, and that no resource has.

use std::sync::Arc;

use trireme_kinds::{Kind, NoHooks, Registry};

/// All of them.
pub struct Bodies {
    /// `authentication.k8s.io/v1` TokenRequest.
    pub token_request: Arc<Kind>,
    /// `policy/v1` Eviction.
    pub eviction: Arc<Kind>,
    /// `autoscaling/v1` Scale.
    pub scale: Arc<Kind>,
    /// `v1` Binding.
    pub binding: Arc<Kind>,
}

impl Bodies {
    /// Finds their types in the registry's schema.
    #[must_use]
    pub fn new(registry: &Registry) -> Option<Self> {
        Some(Self {
            token_request: body(registry, "authentication.k8s.io", "authentication", "TokenRequest")?,
            eviction: body(registry, "policy", "policy", "Eviction")?,
            scale: body(registry, "autoscaling", "autoscaling", "Scale")?,
            binding: registry.by_kind("", "v1", "Binding")?,
        })
    }
}

fn body(registry: &Registry, group: &str, package: &str, name: &str) -> Option<Arc<Kind>> {
    let ty = registry.schema().find(&format!("io.k8s.api.{package}.v1.{name}"))?;
    // Everything that a resource has besides is left empty.
    let like = registry.iter().next()?;
    Some(Arc::new(Kind {
        group: group.to_owned(),
        version: "v1".to_owned(),
        kind: name.to_owned(),
        list_kind: String::new(),
        plural: name.to_lowercase(),
        singular: name.to_lowercase(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        verbs: Vec::new(),
        subresources: Vec::new(),
        scale: None,
        storage: String::new(),
        schema: registry.schema().clone(),
        ty,
        hooks: Arc::new(NoHooks),
        ..like.as_ref().clone()
    }))
}
