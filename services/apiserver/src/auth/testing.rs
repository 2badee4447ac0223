//! Objects for tests, without a store and a cache.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;
use serde_json::Value;
use trireme_kinds::{Kind, Registry};
use trireme_machinery::meta;

use crate::pipeline::{Reader, Stored, TypeMeta};

/// A reader over objects that tests put in.
#[derive(Default)]
pub(crate) struct Objects {
    objects: RwLock<BTreeMap<(String, String, String), Arc<Stored>>>,
}

impl Objects {
    /// A reader of these objects; each names its kind.
    pub(crate) fn of(objects: impl IntoIterator<Item = Value>) -> Arc<Self> {
        let reader = Arc::new(Self::default());
        objects.into_iter().for_each(|object| reader.put(object));
        reader
    }

    /// Adds or replaces an object.
    pub(crate) fn put(&self, object: Value) {
        let gvk = meta::gvk(&object);
        let kind = Registry::builtin().by_kind(&gvk.group, &gvk.version, &gvk.kind).unwrap();
        let (namespace, name) = (meta::namespace(&object).to_owned(), meta::name(&object).to_owned());
        let mut objects = self.objects.write();
        let revision = i64::try_from(objects.len()).unwrap() + 1;
        let labels = meta::labels(&object).into_iter().flatten();
        let stored = Stored {
            type_meta: Arc::new(TypeMeta { api_version: kind.api_version(), kind: kind.kind.clone() }),
            key: format!("/registry/{}/{namespace}/{name}", kind.storage).into(),
            namespace: namespace.as_str().into(),
            name: name.as_str().into(),
            uid: meta::uid(&object).into(),
            revision,
            cause: None,
            labels: labels.map(|(k, v)| (k.as_str().into(), v.as_str().unwrap().into())).collect(),
            fields: kind.selectable_fields(&object).into_iter().map(|(k, v)| (k.into(), v.into())).collect(),
            body: object.to_string().into(),
        };
        objects.insert((kind.plural.clone(), namespace, name), Arc::new(stored));
    }
}

impl Reader for Objects {
    fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Arc<Stored>> {
        self.objects.read().get(&(kind.plural.clone(), namespace.to_owned(), name.to_owned())).cloned()
    }

    fn list(&self, kind: &Kind, namespace: Option<&str>) -> Vec<Arc<Stored>> {
        let objects = self.objects.read();
        let of_kind =
            objects.iter().filter(|((plural, ns, _), _)| *plural == kind.plural && namespace.is_none_or(|n| n == ns));
        of_kind.map(|(_, stored)| stored.clone()).collect()
    }

    fn revision(&self, _kind: &Kind) -> i64 {
        i64::try_from(self.objects.read().len()).unwrap()
    }

    fn synced(&self) -> bool {
        true
    }
}
