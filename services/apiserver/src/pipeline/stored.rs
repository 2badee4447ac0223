//! An object as the watch cache keeps it: encoded once, served many times.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use trireme_telemetry::Cause;

/// The `apiVersion` and `kind` of what is stored under one prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeMeta {
    /// As `apps/v1`.
    pub api_version: String,
    /// As `Deployment`.
    pub kind: String,
}

/// A version of an object. Immutable and shared.
#[derive(Debug, Clone)]
pub struct Stored {
    /// What it is.
    pub type_meta: Arc<TypeMeta>,
    /// Its key in the store.
    pub key: Box<str>,
    /// Its namespace; empty for cluster-scoped objects.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// Its uid.
    pub uid: Box<str>,
    /// Its resourceVersion.
    pub revision: i64,
    /// Why this version was written.
    pub cause: Option<Arc<Cause>>,
    /// Its labels, sorted by key.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// What field selectors can ask for, beside name and namespace.
    pub fields: Box<[(Box<str>, Box<str>)]>,
    /// The object as JSON without `apiVersion` and `kind`, `metadata` first, resourceVersion included.
    pub body: Bytes,
}

// === impl Stored ===

impl Stored {
    /// The object, parsed. It costs a parse: callers that need it again keep it.
    pub fn value(&self) -> Value {
        let mut value: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        if let Value::Object(map) = &mut value {
            map.insert("apiVersion".to_owned(), Value::String(self.type_meta.api_version.clone()));
            map.insert("kind".to_owned(), Value::String(self.type_meta.kind.clone()));
        }
        value
    }

    /// The whole object as JSON, with `kind` and `apiVersion` in front.
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(self.body.len() + 64);
        self.encode_into(&mut out);
        out.into()
    }

    /// Appends the whole object as JSON.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        prefixed(&self.type_meta, &self.body, out);
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(k, _)| (**k).cmp(key)).ok()?;
        Some(&self.labels[at].1)
    }
}

/// Appends `body` (a JSON object) with `kind` and `apiVersion` in front.
pub fn prefixed(type_meta: &TypeMeta, body: &[u8], out: &mut Vec<u8>) {
    // Kinds and versions are names of letters, digits, dots and slashes: nothing to escape.
    out.extend_from_slice(b"{\"kind\":\"");
    out.extend_from_slice(type_meta.kind.as_bytes());
    out.extend_from_slice(b"\",\"apiVersion\":\"");
    out.extend_from_slice(type_meta.api_version.as_bytes());
    out.push(b'"');
    let rest = body.get(1..).unwrap_or_default();
    if rest.first().is_some_and(|b| *b != b'}') {
        out.push(b',');
    }
    out.extend_from_slice(rest);
}
