//! A stored value as a [`Stored`], and an object as the value that is stored.
//!
//! Values are JSON, or protobuf where a stock API server wrote them. To make a `Stored` only the top level and `metadata` are parsed; the rest is copied as it is, unless
//! the kind has fields that selectors can ask for.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use trireme_kinds::Kind;
use trireme_machinery::codec::protobuf;
use trireme_machinery::schema::decode::Strictness;
use trireme_telemetry::Cause;

use crate::error::{Error, ValueError};
use crate::pipeline::{Stored, TypeMeta};

/// Makes `Stored`s of one kind.
#[derive(Debug, Clone)]
pub struct Codec {
    /// The kind in the version that is stored.
    pub kind: Arc<Kind>,
    type_meta: Arc<TypeMeta>,
}

// === impl Codec ===

impl Codec {
    /// A codec of a kind in its stored version.
    pub fn new(kind: Arc<Kind>) -> Self {
        let type_meta = TypeMeta { api_version: kind.api_version(), kind: kind.kind.clone() };
        Self { kind, type_meta: Arc::new(type_meta) }
    }

    /// From an opened value of the store.
    pub fn read(&self, key: &str, value: &[u8], revision: i64, cause: Option<Arc<Cause>>) -> Result<Stored, Error> {
        self.parse(key, value, revision, cause).map_err(|source| Error::Value { key: key.to_owned(), source })
    }

    fn parse(&self, key: &str, value: &[u8], revision: i64, cause: Option<Arc<Cause>>) -> Result<Stored, ValueError> {
        if value.starts_with(protobuf::MAGIC) {
            return self.read_protobuf(value).map(|object| self.make(key, object, revision, cause));
        }
        let parsed: BTreeMap<&str, &RawValue> = match serde_json::from_slice(value) {
            Ok(parsed) => parsed,
            // Keys with escapes can't be borrowed; such a value takes the long way.
            Err(_) => {
                let object: Value = serde_json::from_slice(value)?;
                return Ok(self.make(key, object, revision, cause));
            }
        };
        let metadata = parsed.get("metadata").map_or("{}", |raw| raw.get());
        let metadata: Map<String, Value> = serde_json::from_str(metadata)?;
        let fields = if self.kind.hooks.selectable_field_names().is_empty() {
            Box::default()
        } else {
            self.fields(&serde_json::from_slice(value)?)
        };
        let rest = parsed.iter().map(|(k, v)| (*k, v.get())).filter(|(k, _)| !is_envelope(k));
        Ok(self.assemble(key, metadata, rest, fields, revision, cause))
    }

    /// A value that a stock API server wrote.
    fn read_protobuf(&self, value: &[u8]) -> Result<Value, ValueError> {
        let kind = &self.kind;
        let unknown = protobuf::open(value)?;
        if unknown.kind != kind.kind || unknown.api_version != kind.api_version() {
            return Err(ValueError::Kind { kind: unknown.kind, api_version: unknown.api_version });
        }
        let object = protobuf::decode(&kind.schema, kind.ty, unknown.raw)?;
        let (mut object, _) =
            kind.decode(object, Strictness::Ignore).map_err(|status| ValueError::Misfit(Box::new(status)))?;
        kind.default(&mut object);
        Ok(object)
    }

    /// From an object of ours.
    pub fn make(&self, key: &str, object: Value, revision: i64, cause: Option<Arc<Cause>>) -> Stored {
        let fields = self.fields(&object);
        let Value::Object(mut map) = object else {
            return self.assemble(key, Map::new(), std::iter::empty(), fields, revision, cause);
        };
        let metadata = match map.remove("metadata") {
            Some(Value::Object(metadata)) => metadata,
            _ => Map::new(),
        };
        let rest: Vec<(String, String)> =
            map.into_iter().filter(|(k, _)| !is_envelope(k)).map(|(k, v)| (k, v.to_string())).collect();
        let rest = rest.iter().map(|(k, v)| (k.as_str(), v.as_str()));
        self.assemble(key, metadata, rest, fields, revision, cause)
    }

    /// The version that stands for a deletion: the last one, at the deletion's revision.
    pub fn tombstone(&self, last: &Stored, revision: i64, cause: Option<Arc<Cause>>) -> Stored {
        at_revision(last, revision, cause)
    }

    fn fields(&self, object: &Value) -> Box<[(Box<str>, Box<str>)]> {
        let hooks = &self.kind.hooks;
        let names = hooks.selectable_field_names().iter();
        names.map(|name| ((*name).into(), hooks.selectable_field(object, name).into())).collect()
    }

    fn assemble<'a>(
        &self,
        key: &str,
        mut metadata: Map<String, Value>,
        rest: impl Iterator<Item = (&'a str, &'a str)>,
        fields: Box<[(Box<str>, Box<str>)]>,
        revision: i64,
        cause: Option<Arc<Cause>>,
    ) -> Stored {
        metadata.insert("resourceVersion".to_owned(), Value::String(revision.to_string()));
        let text = |name: &str| metadata.get(name).and_then(Value::as_str).unwrap_or_default().into();
        let labels = match metadata.get("labels") {
            Some(Value::Object(labels)) => {
                labels.iter().map(|(k, v)| (k.as_str().into(), v.as_str().unwrap_or_default().into())).collect()
            }
            _ => Box::default(),
        };
        let (namespace, name, uid) = (text("namespace"), text("name"), text("uid"));
        let mut body = b"{\"metadata\":".to_vec();
        body.extend_from_slice(Value::Object(metadata).to_string().as_bytes());
        for (name, value) in rest {
            body.push(b',');
            body.extend_from_slice(Value::from(name).to_string().as_bytes());
            body.push(b':');
            body.extend_from_slice(value.as_bytes());
        }
        body.push(b'}');
        body.shrink_to_fit();
        Stored {
            type_meta: self.type_meta.clone(),
            key: key.into(),
            namespace,
            name,
            uid,
            revision,
            cause,
            labels,
            fields,
            body: body.into(),
        }
    }
}

/// The same content as of a later revision.
pub fn at_revision(last: &Stored, revision: i64, cause: Option<Arc<Cause>>) -> Stored {
    let mut value: Value = serde_json::from_slice(&last.body).unwrap_or_default();
    let mut body = Vec::with_capacity(last.body.len() + 8);
    if let Value::Object(map) = &mut value
        && let Some(Value::Object(mut metadata)) = map.remove("metadata")
    {
        metadata.insert("resourceVersion".to_owned(), Value::String(revision.to_string()));
        body.extend_from_slice(b"{\"metadata\":");
        body.extend_from_slice(Value::Object(metadata).to_string().as_bytes());
        for (name, value) in map {
            body.push(b',');
            body.extend_from_slice(Value::from(name.as_str()).to_string().as_bytes());
            body.push(b':');
            body.extend_from_slice(value.to_string().as_bytes());
        }
        body.push(b'}');
    }
    Stored { revision, cause, body: body.into(), ..last.clone() }
}

/// The value that is stored for an object: without the version that the store gives it.
pub fn value(object: &Value) -> Bytes {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
        metadata.remove("selfLink");
    }
    let mut out = object.to_string().into_bytes();
    out.push(b'\n');
    out.into()
}

fn is_envelope(name: &str) -> bool {
    matches!(name, "metadata" | "kind" | "apiVersion")
}
