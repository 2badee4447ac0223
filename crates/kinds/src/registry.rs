//! All kinds that are served.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use trireme_machinery::schema::Schema;

use crate::{Kind, builtin};

/// A set of kinds, found by resource or by kind. Kinds that CustomResourceDefinitions define are added to a copy.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    kinds: Vec<Arc<Kind>>,
    by_resource: HashMap<(String, String, String), Arc<Kind>>,
    by_kind: HashMap<(String, String, String), Arc<Kind>>,
    schema: Arc<Schema>,
}

static BUILTIN: LazyLock<Registry> = LazyLock::new(builtin::registry);

impl Registry {
    /// The kinds of Kubernetes itself.
    pub fn builtin() -> &'static Registry {
        &BUILTIN
    }

    /// A registry without kinds over a schema.
    pub fn new(schema: Arc<Schema>) -> Self {
        Self { schema, ..Self::default() }
    }

    /// Adds a kind; one of the same resource is replaced.
    pub fn insert(&mut self, kind: Arc<Kind>) {
        self.remove(&kind.group, &kind.version, &kind.plural);
        let key = |name: &str| (kind.group.clone(), kind.version.clone(), name.to_owned());
        self.by_resource.insert(key(&kind.plural), kind.clone());
        self.by_kind.insert(key(&kind.kind), kind.clone());
        self.kinds.push(kind);
    }

    /// Removes a kind.
    pub fn remove(&mut self, group: &str, version: &str, resource: &str) -> Option<Arc<Kind>> {
        let kind = self.by_resource.remove(&(group.to_owned(), version.to_owned(), resource.to_owned()))?;
        self.by_kind.remove(&(group.to_owned(), version.to_owned(), kind.kind.clone()));
        self.kinds.retain(|k| !Arc::ptr_eq(k, &kind));
        Some(kind)
    }

    /// The kind of a resource.
    pub fn by_resource(&self, group: &str, version: &str, resource: &str) -> Option<Arc<Kind>> {
        self.by_resource.get(&(group.to_owned(), version.to_owned(), resource.to_owned())).cloned()
    }

    /// The kind of that name.
    pub fn by_kind(&self, group: &str, version: &str, kind: &str) -> Option<Arc<Kind>> {
        self.by_kind.get(&(group.to_owned(), version.to_owned(), kind.to_owned())).cloned()
    }

    /// All kinds, in the order of registration (group by group).
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.kinds.iter()
    }

    /// Whether some kind has that group.
    pub fn has_group(&self, group: &str) -> bool {
        self.kinds.iter().any(|k| k.group == group)
    }

    /// The types of the built-in kinds and of everything they reach.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }
}
