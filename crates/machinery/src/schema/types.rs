//! The arena of types.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// Names a [`Type`] inside its [`Schema`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId(pub u32);

/// All types that a set of kinds reaches.
#[derive(Debug, Default)]
pub struct Schema {
    types: Vec<Type>,
    names: HashMap<Box<str>, TypeId>,
}

/// One type: a scalar, a list, a map or an object.
#[derive(Debug, Clone)]
pub struct Type {
    /// The name of its definition (`io.k8s.api.core.v1.PodSpec`); empty for what has no definition of its own.
    pub name: Box<str>,
    /// What decoding errors call it (`v1.PodSpec`, `[]v1.Container`, `map[string]string`, `int32`).
    pub go: Box<str>,
    /// What values it has.
    pub shape: Shape,
    /// Sets the defaults of a value of this type that are not constants; runs before those of what lies below it.
    pub defaults: Option<DefaultFn>,
}

/// Sets defaults in an object or a map.
pub type DefaultFn = fn(&mut Map<String, Value>);

/// What the values of a type look like.
#[derive(Debug, Clone)]
pub enum Shape {
    /// Any JSON value, kept as it is.
    Any,
    /// `true` or `false`.
    Bool,
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// A 64-bit float.
    Double,
    /// Text.
    String,
    /// Bytes, in JSON as base64.
    Bytes,
    /// RFC 3339 with seconds.
    Time,
    /// RFC 3339 with microseconds.
    MicroTime,
    /// A duration in Go's notation (`1m30s`).
    Duration,
    /// A resource quantity (`100m`, `1Gi`).
    Quantity,
    /// A number or a text.
    IntOrString,
    /// A list.
    List {
        /// The type of the items.
        of: TypeId,
        /// How lists of this type are merged and owned.
        kind: ListKind,
    },
    /// A map with free keys.
    Map {
        /// The type of the values.
        of: TypeId,
        /// Owned and replaced as a whole.
        atomic: bool,
    },
    /// A map with known keys.
    Object(Object),
    /// One of these types, told apart by the JSON type of the value (`JSONSchemaPropsOrBool`).
    AnyOf(Vec<TypeId>),
}

/// The fields of an object type.
#[derive(Debug, Clone, Default)]
pub struct Object {
    /// The fields in the order in which Kubernetes declares them.
    pub fields: Vec<Field>,
    /// Owned and replaced as a whole.
    pub atomic: bool,
    /// Keys without a field are kept (`x-kubernetes-preserve-unknown-fields`).
    pub preserve_unknown: bool,
    by_name: Vec<u16>,
}

/// How a list is merged and owned (`x-kubernetes-list-type`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum ListKind {
    /// Replaced as a whole.
    #[default]
    Atomic,
    /// Its items are scalars and each stands once.
    Set,
    /// Its items are objects, each known by the values of these keys.
    Map(Vec<Box<str>>),
}

/// What a strategic merge patch does with a field (`x-kubernetes-patch-strategy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PatchStrategy {
    /// Items are merged with those of the original (else the list is replaced).
    pub merge: bool,
    /// Keys of the original that the patch does not name in `$retainKeys` are removed.
    pub retain_keys: bool,
    /// The object is replaced as a whole.
    pub replace: bool,
}

/// When a field stands in what we answer. Kubernetes encodes Go structures, so this is a fact of its encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Presence {
    /// Always, with the zero value of its type if it was not given (`"resources": {}`).
    Always,
    /// Always, as `null` if it was not given (`"lastProbeTime": null`).
    Null,
    /// Only if it is not empty (`false`, `0`, `""`, `[]` and `{}` are left out).
    OmitEmpty,
    /// Only if it was given; `{}`, `0` and `""` stay.
    OmitNil,
}

/// A field of an object type.
#[derive(Debug, Clone)]
pub struct Field {
    /// Its key in JSON.
    pub name: Box<str>,
    /// The type of its value.
    pub ty: TypeId,
    /// Listed as `required` in the published schema.
    pub required: bool,
    /// When it stands in what we answer.
    pub presence: Presence,
    /// A constant default.
    pub default: Option<Box<Value>>,
    /// The values an enumeration publishes.
    pub enum_values: Vec<Box<str>>,
    /// The object or map in this field is owned and replaced as a whole, whatever its type says.
    pub atomic: bool,
    /// What a strategic merge patch does with it.
    pub patch_strategy: PatchStrategy,
    /// By which key a strategic merge patch knows the items of this list.
    pub patch_merge_key: Option<Box<str>>,
    /// Its number in the protobuf message.
    pub proto_number: u32,
    /// Members of the Go structure that decoding errors name between the object and the field
    /// (`PersistentVolumeSource` in `spec.PersistentVolumeSource.nfs`), joined by dots; empty for most.
    pub embedded: Box<str>,
    /// The protobuf numbers of these members: in protobuf they are messages around the field.
    pub proto_embedded: Vec<u32>,
}

// === impl Schema ===

impl Schema {
    /// The type of that id. Ids are only made by this schema's builder.
    pub fn get(&self, id: TypeId) -> &Type {
        &self.types[id.0 as usize]
    }

    /// What values the type has.
    pub fn shape(&self, id: TypeId) -> &Shape {
        &self.get(id).shape
    }

    /// The type of that definition name (`io.k8s.api.core.v1.Pod`).
    pub fn find(&self, name: &str) -> Option<TypeId> {
        self.names.get(name).copied()
    }

    /// The field `name` of an object type.
    pub fn field(&self, id: TypeId, name: &str) -> Option<&Field> {
        match self.shape(id) {
            Shape::Object(o) => o.field(name),
            _ => None,
        }
    }

    /// The type of what lies under `name`: a field of an object, or a value of a map.
    pub fn child(&self, id: TypeId, name: &str) -> Option<TypeId> {
        match self.shape(id) {
            Shape::Object(o) => o.field(name).map(|f| f.ty),
            Shape::Map { of, .. } => Some(*of),
            _ => None,
        }
    }

    /// The type of the items of a list or the values of a map.
    pub fn item(&self, id: TypeId) -> Option<TypeId> {
        match self.shape(id) {
            Shape::List { of, .. } | Shape::Map { of, .. } => Some(*of),
            _ => None,
        }
    }

    /// How the list in this field is merged and owned; `None` if it is no list.
    pub fn list_kind(&self, field: &Field) -> Option<&ListKind> {
        match self.shape(field.ty) {
            Shape::List { kind, .. } => Some(kind),
            _ => None,
        }
    }

    /// Whether a value has the JSON type of the type.
    pub fn accepts(&self, id: TypeId, value: &Value) -> bool {
        match self.shape(id) {
            Shape::Any => true,
            Shape::Bool => value.is_boolean(),
            Shape::Int32 | Shape::Int64 | Shape::Double => value.is_number(),
            Shape::String | Shape::Bytes | Shape::Time | Shape::MicroTime | Shape::Duration => value.is_string(),
            Shape::Quantity | Shape::IntOrString => value.is_string() || value.is_number(),
            Shape::List { .. } => value.is_array(),
            Shape::Map { .. } | Shape::Object(_) => value.is_object(),
            Shape::AnyOf(types) => types.iter().any(|t| self.accepts(*t, value)),
        }
    }

    /// Number of types.
    pub fn len(&self) -> usize {
        self.types.len()
    }

    /// Without any type.
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// All types with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (TypeId, &Type)> {
        (0u32..).map(TypeId).zip(self.types.iter())
    }
}

// === impl Object ===

impl Object {
    /// An object of these fields.
    pub fn new(mut fields: Vec<Field>) -> Self {
        // Kept for as long as the server runs.
        fields.shrink_to_fit();
        let mut by_name: Vec<u16> = (0..u16::try_from(fields.len()).unwrap_or(u16::MAX)).collect();
        by_name.sort_by(|a, b| fields[*a as usize].name.cmp(&fields[*b as usize].name));
        Self { fields, atomic: false, preserve_unknown: false, by_name }
    }

    /// The field of that name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        let at = self.by_name.binary_search_by(|i| (*self.fields[*i as usize].name).cmp(name)).ok()?;
        Some(&self.fields[self.by_name[at] as usize])
    }
}

// === impl PatchStrategy ===

impl PatchStrategy {
    /// Parses the notation of the published schema: `merge`, `replace`, `retainKeys`, joined by commas.
    pub fn parse(text: &str) -> Self {
        let has = |word| text.split(',').any(|w| w == word);
        Self { merge: has("merge"), retain_keys: has("retainKeys"), replace: has("replace") }
    }
}

/// Makes a [`Schema`]: types are reserved first and defined later, so that they can refer to each other in any order.
#[derive(Debug, Default)]
pub struct SchemaBuilder {
    schema: Schema,
}

impl SchemaBuilder {
    /// An id for a type that is defined later; until then it holds any value.
    pub fn reserve(&mut self, name: &str, go: &str) -> TypeId {
        self.add(Type { name: name.into(), go: go.into(), shape: Shape::Any, defaults: None })
    }

    /// Says what a reserved type is.
    pub fn define(&mut self, id: TypeId, shape: Shape) {
        self.schema.types[id.0 as usize].shape = shape;
    }

    /// Gives defaults to the types that have this name, or, if they have none, that Go calls so.
    pub fn set_defaults(&mut self, name: &str, defaults: DefaultFn) -> bool {
        let mut found = false;
        for ty in &mut self.schema.types {
            if *ty.name == *name || (ty.name.is_empty() && *ty.go == *name) {
                ty.defaults = Some(defaults);
                found = true;
            }
        }
        found
    }

    /// Adds a type.
    pub fn add(&mut self, ty: Type) -> TypeId {
        let id = TypeId(u32::try_from(self.schema.types.len()).unwrap_or(u32::MAX));
        if !ty.name.is_empty() {
            self.schema.names.insert(ty.name.clone(), id);
        }
        self.schema.types.push(ty);
        id
    }

    /// What was added so far.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The finished schema.
    pub fn build(mut self) -> Schema {
        self.schema.types.shrink_to_fit();
        self.schema
    }
}
