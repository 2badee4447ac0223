//! Defaults: constants, and what a type's own function sets.

use serde_json::Value;

use super::zero::{is_empty, zero};
use super::{Presence, Schema, Shape, TypeId};

/// Sets every default below `value` that is not set: first what the type's own function sets, then its constants, then
/// what lies below. An object that is absent stays absent, and so do the defaults within it.
pub fn apply(schema: &Schema, ty: TypeId, value: &mut Value) {
    if let (Some(defaults), Value::Object(map)) = (schema.get(ty).defaults, &mut *value) {
        defaults(map);
    }
    match (schema.shape(ty), value) {
        (Shape::Object(object), Value::Object(map)) => {
            for field in &object.fields {
                if let Some(default) = &field.default {
                    // A pointer is unset when it is nil, anything else when it is zero.
                    let unset = match map.get(&*field.name) {
                        None | Some(Value::Null) => true,
                        Some(v) if field.presence == Presence::OmitNil => v.is_null(),
                        Some(v) => is_empty(v) || *v == zero(schema, field.ty),
                    };
                    if unset {
                        map.insert(field.name.to_string(), (**default).clone());
                    }
                }
                if let Some(value) = map.get_mut(&*field.name) {
                    apply(schema, field.ty, value);
                }
            }
        }
        (Shape::Map { of, .. }, Value::Object(map)) => map.values_mut().for_each(|v| apply(schema, *of, v)),
        (Shape::List { of, .. }, Value::Array(items)) => items.iter_mut().for_each(|v| apply(schema, *of, v)),
        _ => {}
    }
}
