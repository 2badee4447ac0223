//! Types as schemas.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use trireme_kinds::Registry;
use trireme_machinery::schema::{Field, ListKind, Presence, Schema, Shape, TypeId};

use super::encoded::Encoded;
use super::reference;
use crate::describe::describe;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";

const LIST_TYPE: &str = "x-kubernetes-list-type";

/// Types that are no resource's and yet have a kind.
const BODIES: [(&str, &str, &str); 3] = [
    ("io.k8s.api.authentication.v1.TokenRequest", "authentication.k8s.io", "TokenRequest"),
    ("io.k8s.api.autoscaling.v1.Scale", "autoscaling", "Scale"),
    ("io.k8s.api.policy.v1.Eviction", "policy", "Eviction"),
];
/// Fields whose published default is their zero value, though answers leave it out.
const ZERO_DEFAULTS: [(&str, &str); 13] = [
    ("io.k8s.api.autoscaling.v1.ScaleSpec", "replicas"),
    ("io.k8s.api.core.v1.AzureDiskVolumeSource", "readOnly"),
    ("io.k8s.api.core.v1.ConfigMapEnvSource", "name"),
    ("io.k8s.api.core.v1.ConfigMapKeySelector", "name"),
    ("io.k8s.api.core.v1.ConfigMapProjection", "name"),
    ("io.k8s.api.core.v1.ConfigMapVolumeSource", "name"),
    ("io.k8s.api.core.v1.FileKeySelector", "optional"),
    ("io.k8s.api.core.v1.GRPCAction", "service"),
    ("io.k8s.api.core.v1.LocalObjectReference", "name"),
    ("io.k8s.api.core.v1.ReplicationControllerSpec", "minReadySeconds"),
    ("io.k8s.api.core.v1.SecretEnvSource", "name"),
    ("io.k8s.api.core.v1.SecretKeySelector", "name"),
    ("io.k8s.api.core.v1.SecretProjection", "name"),
];

/// OpenAPI 3.0 or Swagger 2.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    V3,
    V2,
}

impl Dialect {
    /// What references begin with.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::V3 => "#/components/schemas/",
            Self::V2 => "#/definitions/",
        }
    }
}

/// Collects the schemas that operations refer to, with all they reach.
pub(super) struct Schemas<'a> {
    schema: &'a Schema,
    dialect: Dialect,
    /// Which kinds a type stands for.
    kinds: BTreeMap<String, Vec<Value>>,
    wanted: Vec<TypeId>,
    seen: BTreeSet<TypeId>,
    done: Encoded,
}

impl<'a> Schemas<'a> {
    pub(super) fn new(registry: &'a Registry, dialect: Dialect) -> Self {
        let schema = registry.schema();
        let mut kinds: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for kind in registry.iter() {
            let name = schema.get(kind.ty).name.to_string();
            let gvk = |kind_name: &str| json!({"group": kind.group, "version": kind.version, "kind": kind_name});
            if !kind.list_kind.is_empty() {
                kinds.entry(format!("{name}List")).or_default().push(gvk(&kind.list_kind));
            }
            kinds.entry(name).or_default().push(gvk(&kind.kind));
        }
        for (name, group, kind) in BODIES {
            kinds.entry(name.to_owned()).or_default().push(json!({"group": group, "version": "v1", "kind": kind}));
        }
        for name in ["DeleteOptions", "Status", "WatchEvent"] {
            kinds
                .entry(format!("{META}.{name}"))
                .or_default()
                .push(json!({"group": "", "version": "v1", "kind": name}));
        }
        Self { schema, dialect, kinds, wanted: Vec::new(), seen: BTreeSet::new(), done: Encoded::default() }
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// A reference to a type by name, which is then part of the document. An unknown name is an object.
    pub(super) fn refer(&mut self, name: &str) -> Value {
        match self.schema.find(name) {
            Some(id) => self.want(id),
            None => {
                self.done.put_once(name, &json!({"type": "object"}));
            }
        }
        reference(self.dialect, name)
    }

    /// The name of the type of a kind.
    pub(super) fn name_of(&self, ty: TypeId) -> String {
        self.schema.get(ty).name.to_string()
    }

    fn want(&mut self, id: TypeId) {
        if self.seen.insert(id) {
            self.wanted.push(id);
        }
    }

    /// All schemas.
    pub(super) fn finish(mut self) -> Encoded {
        while let Some(id) = self.wanted.pop() {
            let name = self.schema.get(id).name.to_string();
            let definition = self.definition(id, &name);
            self.done.put(name, &definition);
        }
        self.done
    }

    fn definition(&mut self, id: TypeId, name: &str) -> Value {
        let mut out = Map::new();
        if let Some(text) = describe(name, None) {
            out.insert("description".into(), json!(text));
        }
        match self.schema.shape(id) {
            Shape::Object(object) => {
                out.insert("type".into(), json!("object"));
                let required: Vec<&str> = object.fields.iter().filter(|f| f.required).map(|f| &*f.name).collect();
                if !required.is_empty() {
                    out.insert("required".into(), json!(required));
                }
                let mut properties = Map::new();
                for field in &object.fields {
                    properties.insert(field.name.to_string(), self.property(name, field));
                }
                if !properties.is_empty() {
                    out.insert("properties".into(), Value::Object(properties));
                }
                if object.atomic {
                    out.insert("x-kubernetes-map-type".into(), json!("atomic"));
                }
                if object.preserve_unknown {
                    out.insert("x-kubernetes-preserve-unknown-fields".into(), json!(true));
                }
            }
            _ => out.extend(self.inline(id)),
        }
        if let Some(kinds) = self.kinds.get(name) {
            out.insert("x-kubernetes-group-version-kind".into(), json!(kinds));
        }
        Value::Object(out)
    }

    fn property(&mut self, owner: &str, field: &Field) -> Value {
        let mut out = Map::new();
        if let Some(text) = describe(owner, Some(&field.name)) {
            out.insert("description".into(), json!(text));
        }
        if let Some(default) = self.default_of(owner, field) {
            out.insert("default".into(), default);
        }
        let mut value = self.value(field.ty);
        if &*field.name == "items" && self.kinds.contains_key(owner) && owner.ends_with("List") {
            value.remove(LIST_TYPE);
        }
        match value.get("$ref") {
            // Beside a reference nothing else counts in 3.0, so it stands in a list of one.
            Some(_) if self.dialect == Dialect::V3 => _ = out.insert("allOf".into(), json!([value])),
            _ => out.extend(value),
        }
        if !field.enum_values.is_empty() {
            let values = json!(field.enum_values);
            match out.get_mut("items").and_then(Value::as_object_mut) {
                Some(items) => _ = items.insert("enum".into(), values),
                None => _ = out.insert("enum".into(), values),
            }
        }
        if field.atomic {
            out.insert("x-kubernetes-map-type".into(), json!("atomic"));
        }
        if let Some(key) = &field.patch_merge_key {
            out.insert("x-kubernetes-patch-merge-key".into(), json!(key));
        }
        let strategy = field.patch_strategy;
        let parts = [(strategy.merge, "merge"), (strategy.replace, "replace"), (strategy.retain_keys, "retainKeys")];
        let parts: Vec<&str> = parts.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
        if !parts.is_empty() {
            out.insert("x-kubernetes-patch-strategy".into(), json!(parts.join(",")));
        }
        Value::Object(out)
    }

    /// A constant default, or the zero value that stands in every answer.
    fn default_of(&self, owner: &str, field: &Field) -> Option<Value> {
        if let Some(default) = &field.default {
            return Some((**default).clone());
        }
        if field.presence != Presence::Always && !ZERO_DEFAULTS.contains(&(owner, &field.name)) {
            return None;
        }
        match self.schema.shape(field.ty) {
            Shape::Object(_) => Some(json!({})),
            Shape::String => Some(json!("")),
            Shape::Bool => Some(json!(false)),
            Shape::Int32 | Shape::Int64 | Shape::Double => Some(json!(0)),
            _ => None,
        }
    }

    /// A type where it is used: a reference if it has a definition, else in place.
    fn value(&mut self, id: TypeId) -> Map<String, Value> {
        let ty = self.schema.get(id);
        if !ty.name.is_empty() && matches!(ty.shape, Shape::Object(_) | Shape::AnyOf(_)) {
            self.want(id);
            return as_map(reference(self.dialect, &ty.name));
        }
        self.inline(id)
    }

    fn inline(&mut self, id: TypeId) -> Map<String, Value> {
        let ty = self.schema.get(id);
        let named = |this: &mut Self, name: &str, definition: Value| {
            this.done.put_once(name, &definition);
            as_map(reference(this.dialect, name))
        };
        let v3 = self.dialect == Dialect::V3;
        match &ty.shape {
            Shape::Any => match &*ty.go {
                "v1.FieldsV1" => named(self, &format!("{META}.FieldsV1"), json!({"type": "object"})),
                "runtime.RawExtension" => {
                    named(self, "io.k8s.apimachinery.pkg.runtime.RawExtension", json!({"type": "object"}))
                }
                _ => Map::new(),
            },
            Shape::Bool => as_map(json!({"type": "boolean"})),
            Shape::Int32 => as_map(json!({"type": "integer", "format": "int32"})),
            Shape::Int64 => as_map(json!({"type": "integer", "format": "int64"})),
            Shape::Double => as_map(json!({"type": "number", "format": "double"})),
            Shape::String => as_map(json!({"type": "string"})),
            Shape::Bytes => as_map(json!({"type": "string", "format": "byte"})),
            Shape::Time => named(self, &format!("{META}.Time"), json!({"type": "string", "format": "date-time"})),
            Shape::MicroTime => {
                named(self, &format!("{META}.MicroTime"), json!({"type": "string", "format": "date-time"}))
            }
            Shape::Duration => named(self, &format!("{META}.Duration"), json!({"type": "string"})),
            Shape::Quantity => {
                let both = json!({"oneOf": [{"type": "string"}, {"type": "number"}]});
                named(self, QUANTITY, if v3 { both } else { json!({"type": "string"}) })
            }
            Shape::IntOrString => {
                let both = json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]});
                named(self, INT_OR_STRING, if v3 { both } else { json!({"type": "string", "format": "int-or-string"}) })
            }
            Shape::List { of, kind } => {
                let mut out = as_map(json!({"type": "array"}));
                out.insert("items".into(), Value::Object(self.value(*of)));
                match kind {
                    ListKind::Atomic => _ = out.insert(LIST_TYPE.into(), json!("atomic")),
                    ListKind::Set => _ = out.insert(LIST_TYPE.into(), json!("set")),
                    ListKind::Map(keys) => {
                        out.insert("x-kubernetes-list-map-keys".into(), json!(keys));
                        out.insert(LIST_TYPE.into(), json!("map"));
                    }
                }
                out
            }
            Shape::Map { of, atomic } => {
                let mut out = as_map(json!({"type": "object"}));
                let mut values = self.value(*of);
                values.remove(LIST_TYPE);
                out.insert("additionalProperties".into(), Value::Object(values));
                if *atomic {
                    out.insert("x-kubernetes-map-type".into(), json!("atomic"));
                }
                out
            }
            // Told apart by the JSON type: no keyword of OpenAPI says that without validating more than upstream does.
            Shape::AnyOf(_) => Map::new(),
            Shape::Object(_) => as_map(json!({"type": "object"})),
        }
    }
}

fn as_map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
