//! The verbs on the objects of one resource.

use std::marker::PhantomData;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::backoff::Backoff;
use crate::client::Client;
use crate::error::Error;
use crate::object::{ApiResource, DynObject, Object};
use crate::params::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams};
use crate::transport::Request;

/// The verbs over whole objects of a resource known at run time.
pub type DynApi = Api<DynObject>;

/// The objects of a list and where it stands.
#[derive(Debug, Clone)]
pub struct List<K> {
    /// The objects.
    pub items: Vec<K>,
    /// The revision at which the list was true.
    pub revision: i64,
    /// Where to go on, if the list was limited.
    pub continue_token: Option<String>,
}

/// The verbs on the objects of one resource, in a namespace, in all of them, or of the cluster.
#[derive(Debug)]
pub struct Api<K> {
    client: Client,
    resource: ApiResource,
    namespace: String,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Api<K> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            resource: self.resource.clone(),
            namespace: self.namespace.clone(),
            kind: PhantomData,
        }
    }
}

impl<K: Object> Api<K> {
    pub(crate) fn new(client: Client, resource: ApiResource, namespace: String) -> Self {
        Self { client, resource, namespace, kind: PhantomData }
    }

    /// Where its objects lie.
    #[must_use]
    pub fn resource(&self) -> &ApiResource {
        &self.resource
    }

    fn request(&self, verb: &'static str, name: &str) -> Request {
        Request::new(verb, &self.resource, &self.namespace, name)
    }

    async fn send<T: DeserializeOwned>(&self, request: Request) -> Result<T, Error> {
        let what = self.resource.kind.clone();
        let answer = self.client.request(request).await?;
        decode(&what, &answer.body)
    }

    /// One object.
    ///
    /// # Errors
    /// It does not exist, or the call failed.
    pub async fn get(&self, name: &str) -> Result<K, Error> {
        self.send(self.request("get", name)).await
    }

    /// One object, `None` if it does not exist.
    ///
    /// # Errors
    /// The call failed.
    pub async fn get_opt(&self, name: &str) -> Result<Option<K>, Error> {
        match self.get(name).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// One object as old as the options allow.
    ///
    /// # Errors
    /// It does not exist, or the call failed.
    pub async fn get_with(&self, name: &str, params: &GetParams) -> Result<K, Error> {
        let mut request = self.request("get", name);
        request.options = options(params)?;
        self.send(request).await
    }

    /// The objects that the options select.
    ///
    /// # Errors
    /// The call failed.
    pub async fn list(&self, params: &ListParams) -> Result<List<K>, Error> {
        let mut request = self.request("list", "");
        request.options = options(params)?;
        let listed = self.client.list(&request).await?;
        let mut items = Vec::with_capacity(listed.items.len());
        for item in &listed.items {
            items.push(decode(&self.resource.kind, &item.object)?);
        }
        let continue_token = Some(listed.continue_token).filter(|t| !t.is_empty());
        Ok(List { items, revision: listed.revision, continue_token })
    }

    /// Creates an object; an object without a name needs `generateName`.
    ///
    /// # Errors
    /// The call failed or was refused.
    pub async fn create(&self, params: &PostParams, object: &K) -> Result<K, Error> {
        let mut request = self.request("create", "");
        request.options = options(params)?;
        request.body = self.encode(object)?;
        self.send(request).await
    }

    /// Creates an object whose name was chosen by this worker and is used by nobody else, and repeats the same request
    /// until the outcome is known, so that a lost answer does not make two of it.
    ///
    /// # Errors
    /// The call was refused.
    pub async fn create_certainly(&self, object: &K) -> Result<K, Error> {
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));
        let mut unknown = false;
        loop {
            match self.create(&PostParams::default(), object).await {
                Err(error) if unknown && error.is_already_exists() => {
                    return self.get(object.meta().name.as_deref().unwrap_or_default()).await;
                }
                Err(error) if error.is_outcome_unknown() => {
                    unknown = true;
                    tokio::time::sleep(backoff.wait()).await;
                }
                known => return known,
            }
        }
    }

    /// Replaces an object; with a resourceVersion in it, only if it did not change since.
    ///
    /// # Errors
    /// The call failed or was refused.
    pub async fn update(&self, params: &PostParams, object: &K) -> Result<K, Error> {
        self.put(params, object, "").await
    }

    /// Replaces an object's status.
    ///
    /// # Errors
    /// The call failed or was refused.
    pub async fn update_status(&self, params: &PostParams, object: &K) -> Result<K, Error> {
        self.put(params, object, "status").await
    }

    async fn put(&self, params: &PostParams, object: &K, subresource: &str) -> Result<K, Error> {
        let name = object.meta().name.clone().unwrap_or_default();
        let mut request = self.request("update", &name);
        subresource.clone_into(&mut request.subresource);
        request.options = options(params)?;
        request.body = self.encode(object)?;
        self.send(request).await
    }

    /// Changes an object.
    ///
    /// # Errors
    /// The call failed or was refused.
    pub async fn patch(&self, name: &str, params: &PatchParams, patch: &Patch) -> Result<K, Error> {
        self.patch_subresource(name, "", params, patch).await
    }

    /// Changes an object's status.
    ///
    /// # Errors
    /// The call failed or was refused.
    pub async fn patch_status(&self, name: &str, params: &PatchParams, patch: &Patch) -> Result<K, Error> {
        self.patch_subresource(name, "status", params, patch).await
    }

    /// Changes an object through a subresource.
    ///
    /// # Errors
    /// The call failed or was refused.
    pub async fn patch_subresource(
        &self,
        name: &str,
        subresource: &str,
        params: &PatchParams,
        patch: &Patch,
    ) -> Result<K, Error> {
        let mut request = self.request("patch", name);
        subresource.clone_into(&mut request.subresource);
        request.options = options(params)?;
        request.content_type = patch.content_type();
        request.body = to_bytes(patch.value())?;
        self.send(request).await
    }

    /// Deletes an object: the object if it still exists afterwards (grace, finalizers) or as it was, where the server tells.
    ///
    /// # Errors
    /// The call failed or was refused.
    pub async fn delete(&self, name: &str, params: &DeleteParams) -> Result<Option<K>, Error> {
        let mut request = self.request("delete", name);
        let params = options(params)?;
        request.options = if params.as_object().is_some_and(serde_json::Map::is_empty) { Value::Null } else { params };
        let answer = self.client.request(request).await?;
        let body: Value = decode("deleted object", &answer.body)?;
        if body.get("kind").and_then(Value::as_str) == Some("Status") {
            return Ok(None);
        }
        serde_json::from_value(body).map(Some).map_err(|e| Error::decode(self.resource.kind.clone(), e))
    }

    /// Deletes what the options select.
    ///
    /// # Errors
    /// The call failed or was refused.
    pub async fn delete_collection(&self, params: &DeleteParams, selection: &ListParams) -> Result<(), Error> {
        let mut request = self.request("deletecollection", "");
        request.options = options(selection)?;
        request.body = to_bytes(params)?;
        self.client.request(request).await.map(drop)
    }

    /// Creates through a subresource: binding, eviction, token.
    ///
    /// # Errors
    /// The call failed or was refused.
    pub async fn create_subresource(&self, name: &str, subresource: &str, body: &Value) -> Result<Value, Error> {
        let mut request = self.request("create", name);
        subresource.clone_into(&mut request.subresource);
        request.body = to_bytes(body)?;
        self.send(request).await
    }

    /// Reads a subresource: scale.
    ///
    /// # Errors
    /// The call failed or was refused.
    pub async fn get_subresource(&self, name: &str, subresource: &str) -> Result<Value, Error> {
        let mut request = self.request("get", name);
        subresource.clone_into(&mut request.subresource);
        self.send(request).await
    }

    /// Replaces through a subresource other than status: finalize, scale, approval.
    ///
    /// # Errors
    /// The call failed or was refused.
    pub async fn update_subresource(&self, name: &str, subresource: &str, body: &Value) -> Result<Value, Error> {
        let mut request = self.request("update", name);
        subresource.clone_into(&mut request.subresource);
        request.body = to_bytes(body)?;
        self.send(request).await
    }

    /// The object with `apiVersion` and `kind`, which a dynamic or metadata-only object may lack inside a list.
    fn encode(&self, object: &K) -> Result<Bytes, Error> {
        let mut value = serde_json::to_value(object).map_err(|e| Error::encode(self.resource.kind.clone(), e))?;
        if let Some(fields) = value.as_object_mut() {
            fields.entry("apiVersion").or_insert_with(|| self.resource.api_version().into());
            fields.entry("kind").or_insert_with(|| self.resource.kind.clone().into());
        }
        to_bytes(&value)
    }
}

fn options(params: &impl Serialize) -> Result<Value, Error> {
    serde_json::to_value(params).map_err(|e| Error::encode("options", e))
}

fn to_bytes(value: &impl Serialize) -> Result<Bytes, Error> {
    serde_json::to_vec(value).map(Bytes::from).map_err(|e| Error::encode("body", e))
}

pub(crate) fn decode<T: DeserializeOwned>(what: &str, body: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|e| Error::decode(what, e))
}
