//! What the client can carry: typed objects of k8s-openapi, and objects of any kind.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use serde_json::Value;

use crate::key::ObjectKey;

/// A resource of an API server: where its objects are found.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApiResource {
    /// Empty for the core group.
    pub group: String,
    /// As in "v1".
    pub version: String,
    /// As in "Pod".
    pub kind: String,
    /// As in "pods".
    pub plural: String,
    /// Objects lie in namespaces.
    pub namespaced: bool,
}

impl ApiResource {
    /// The resource of a typed kind.
    #[must_use]
    pub fn of<K: Known>() -> Self {
        K::resource()
    }

    /// `v1` or `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// `pods` or `deployments.apps`.
    #[must_use]
    pub fn group_resource(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }
}

/// An object with metadata that can be read from and written to JSON.
pub trait Object: Clone + Send + Sync + Serialize + DeserializeOwned + 'static {
    /// The object's metadata.
    fn meta(&self) -> &ObjectMeta;
    /// The object's metadata, to change it.
    fn meta_mut(&mut self) -> &mut ObjectMeta;

    /// Namespace and name.
    fn key(&self) -> ObjectKey {
        ObjectKey::of(self.meta())
    }
    /// Its uid, empty before it was created.
    fn uid(&self) -> &str {
        self.meta().uid.as_deref().unwrap_or_default()
    }
    /// Its resourceVersion as a revision; 0 when it has none.
    fn revision(&self) -> i64 {
        parse_revision(self.meta().resource_version.as_deref())
    }
    /// It has a deletion timestamp.
    fn is_deleting(&self) -> bool {
        self.meta().deletion_timestamp.is_some()
    }
}

/// A kind whose resource is known at compile time.
pub trait Known: Object {
    /// Where its objects are found.
    fn resource() -> ApiResource;
}

/// Whether objects of a k8s-openapi scope lie in namespaces.
pub trait ScopeKind {
    /// They do.
    const NAMESPACED: bool;
}

impl ScopeKind for k8s_openapi::NamespaceResourceScope {
    const NAMESPACED: bool = true;
}
impl ScopeKind for k8s_openapi::ClusterResourceScope {
    const NAMESPACED: bool = false;
}

impl<K> Object for K
where
    K: k8s_openapi::Metadata<Ty = ObjectMeta> + Clone + Send + Sync + Serialize + DeserializeOwned + 'static,
{
    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.metadata_mut()
    }
}

impl<K> Known for K
where
    K: k8s_openapi::Resource + Object,
    K::Scope: ScopeKind,
{
    fn resource() -> ApiResource {
        ApiResource {
            group: K::GROUP.to_owned(),
            version: K::VERSION.to_owned(),
            kind: K::KIND.to_owned(),
            plural: K::URL_PATH_SEGMENT.to_owned(),
            namespaced: K::Scope::NAMESPACED,
        }
    }
}

/// An object of any kind, whole.
#[derive(Debug, Clone, Default)]
pub struct DynObject {
    meta: ObjectMeta,
    value: Value,
}

impl DynObject {
    /// Takes a JSON object for an object.
    ///
    /// # Errors
    /// Its metadata cannot be read.
    pub fn new(value: Value) -> Result<Self, serde_json::Error> {
        let meta = match value.get("metadata") {
            Some(meta) => ObjectMeta::deserialize(meta)?,
            None => ObjectMeta::default(),
        };
        Ok(Self { meta, value })
    }

    /// The whole object as read. (Changes through `meta_mut` show when it is serialised.)
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The whole object.
    #[must_use]
    pub fn into_value(self) -> Value {
        self.value
    }

    /// `apiVersion` of the object.
    #[must_use]
    pub fn api_version(&self) -> &str {
        self.value.get("apiVersion").and_then(Value::as_str).unwrap_or_default()
    }

    /// `kind` of the object.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.value.get("kind").and_then(Value::as_str).unwrap_or_default()
    }
}

impl Object for DynObject {
    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

impl Serialize for DynObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let Some(fields) = self.value.as_object() else {
            return Err(serde::ser::Error::custom("an object is a JSON object"));
        };
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in fields.iter().filter(|(name, _)| *name != "metadata") {
            map.serialize_entry(name, value)?;
        }
        map.serialize_entry("metadata", &self.meta)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for DynObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::new(value).map_err(serde::de::Error::custom)
    }
}

/// An object of any kind of which only the metadata is kept: for what follows every object of a cluster.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetaObject {
    /// As in "apps/v1"; empty inside a list of some servers.
    #[serde(default)]
    pub api_version: String,
    /// As in "Deployment"; empty inside a list of some servers.
    #[serde(default)]
    pub kind: String,
    /// Its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
}

impl Object for MetaObject {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// A resourceVersion as a number; 0 for none.
#[must_use]
pub fn parse_revision(text: Option<&str>) -> i64 {
    text.and_then(|t| t.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::{apps::v1::Deployment, core::v1::Node};
    use serde_json::json;

    #[test]
    fn a_typed_kind_knows_its_resource() {
        let deployments = ApiResource::of::<Deployment>();
        assert_eq!(deployments.group_resource(), "deployments.apps");
        assert!(deployments.namespaced);
        assert!(!ApiResource::of::<Node>().namespaced);
    }

    #[test]
    fn a_dynamic_object_keeps_what_it_does_not_know() {
        let value = json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "a", "resourceVersion": "7"}, "strange": [1]});
        let mut object: DynObject = serde_json::from_value(value).unwrap();
        assert_eq!(object.revision(), 7);
        object.meta_mut().name = Some("b".into());
        let back = serde_json::to_value(&object).unwrap();
        assert_eq!(back["strange"], json!([1]));
        assert_eq!(back["metadata"]["name"], "b");
    }
}
