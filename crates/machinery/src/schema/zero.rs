//! What a field holds that nobody set, and whether it is then answered: facts of Go's encoder.

use serde_json::{Map, Value};

use super::{Presence, Schema, Shape, TypeId};

/// The value of a type that nobody set.
pub fn zero(schema: &Schema, ty: TypeId) -> Value {
    match schema.shape(ty) {
        Shape::Any
        | Shape::AnyOf(_)
        | Shape::Bytes
        | Shape::Time
        | Shape::MicroTime
        | Shape::List { .. }
        | Shape::Map { .. } => Value::Null,
        Shape::Bool => Value::Bool(false),
        Shape::Int32 | Shape::Int64 | Shape::Double | Shape::IntOrString => Value::from(0),
        Shape::String => Value::from(""),
        Shape::Quantity => Value::from("0"),
        Shape::Duration => Value::from("0s"),
        Shape::Object(_) => {
            let mut map = Map::new();
            settle(schema, ty, &mut map);
            Value::Object(map)
        }
    }
}

/// Whether a field that is omitted when empty is left out with this value.
pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(b) => !b,
        Value::Number(n) => n.as_f64() == Some(0.0),
        Value::String(s) => s.is_empty(),
        Value::Array(a) => a.is_empty(),
        Value::Object(o) => o.is_empty(),
    }
}

/// Makes the keys of one object those that Go's encoder would write: what is always there is added, what is empty and
/// then omitted is removed. Does not descend.
pub fn settle(schema: &Schema, ty: TypeId, map: &mut Map<String, Value>) {
    let Shape::Object(object) = schema.shape(ty) else { return };
    for field in &object.fields {
        match field.presence {
            Presence::OmitNil => {
                if map.get(&*field.name).is_some_and(Value::is_null) {
                    map.remove(&*field.name);
                }
            }
            Presence::OmitEmpty => {
                if map.get(&*field.name).is_some_and(is_empty) {
                    map.remove(&*field.name);
                }
            }
            Presence::Null => {
                if !map.contains_key(&*field.name) {
                    map.insert(field.name.to_string(), Value::Null);
                }
            }
            Presence::Always => {
                if map.get(&*field.name).is_none_or(Value::is_null) {
                    map.insert(field.name.to_string(), zero(schema, field.ty));
                }
            }
        }
    }
}

/// [`settle`] for an object and everything below it.
pub fn settle_all(schema: &Schema, ty: TypeId, value: &mut Value) {
    match (schema.shape(ty), value) {
        (Shape::Object(object), Value::Object(map)) => {
            for (key, value) in map.iter_mut() {
                if let Some(field) = object.field(key) {
                    settle_all(schema, field.ty, value);
                }
            }
            settle(schema, ty, map);
        }
        (Shape::Map { of, .. }, Value::Object(map)) => map.values_mut().for_each(|v| settle_all(schema, *of, v)),
        (Shape::List { of, .. }, Value::Array(items)) => items.iter_mut().for_each(|v| settle_all(schema, *of, v)),
        (Shape::AnyOf(types), value) => {
            if let Some(ty) = types.iter().find(|t| schema.accepts(**t, value)) {
                settle_all(schema, *ty, value);
            }
        }
        _ => {}
    }
}

/// [`settle_all`] for an object that went through protobuf, which knows no empty lists and maps: they become `null`
/// where they would be written, and bytes in a map become empty.
pub fn settle_stored(schema: &Schema, ty: TypeId, value: &mut Value) {
    match (schema.shape(ty), value) {
        (Shape::Object(object), Value::Object(map)) => {
            for (key, value) in map.iter_mut() {
                let Some(field) = object.field(key) else { continue };
                settle_stored(schema, field.ty, value);
                let empty = matches!(value, Value::Array(a) if a.is_empty())
                    || (matches!(schema.shape(field.ty), Shape::Map { .. })
                        && matches!(value, Value::Object(o) if o.is_empty()));
                if empty {
                    *value = Value::Null;
                }
            }
            settle(schema, ty, map);
        }
        (Shape::Map { of, .. }, Value::Object(map)) => {
            for value in map.values_mut() {
                settle_stored(schema, *of, value);
                if value.is_null() && matches!(schema.shape(*of), Shape::Bytes) {
                    *value = Value::from("");
                }
            }
        }
        (Shape::List { of, .. }, Value::Array(items)) => items.iter_mut().for_each(|v| settle_stored(schema, *of, v)),
        (Shape::AnyOf(types), value) => {
            if let Some(ty) = types.iter().find(|t| schema.accepts(**t, value)) {
                settle_stored(schema, *ty, value);
            }
        }
        _ => {}
    }
}
