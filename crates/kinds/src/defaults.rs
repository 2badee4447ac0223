//! Small words that defaults are written in.

use serde_json::{Map, Value};
use trireme_machinery::schema::zero::is_empty;

/// An object whose defaults are set.
pub(crate) type Object = Map<String, Value>;

/// Sets a field that is absent.
pub(crate) fn absent(obj: &mut Object, key: &str, value: impl Into<Value>) {
    if obj.get(key).is_none_or(Value::is_null) {
        obj.insert(key.to_owned(), value.into());
    }
}

/// Sets a field that is absent or holds the zero value.
pub(crate) fn empty(obj: &mut Object, key: &str, value: impl Into<Value>) {
    if obj.get(key).is_none_or(is_empty) {
        obj.insert(key.to_owned(), value.into());
    }
}

/// The text of a field, empty if absent.
pub(crate) fn text<'a>(obj: &'a Object, key: &str) -> &'a str {
    obj.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The object of a field, if it is there.
pub(crate) fn object<'a>(obj: &'a mut Object, key: &str) -> Option<&'a mut Object> {
    obj.get_mut(key).and_then(Value::as_object_mut)
}

/// The object of a field, made if it is absent.
pub(crate) fn ensure<'a>(obj: &'a mut Object, key: &str) -> Option<&'a mut Object> {
    absent(obj, key, Object::new());
    object(obj, key)
}

/// The objects of a list, none if it is absent.
pub(crate) fn items<'a>(obj: &'a mut Object, key: &str) -> impl Iterator<Item = &'a mut Object> {
    obj.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Copies entries of one map that another has not.
pub(crate) fn fill_from(target: &mut Object, source: &Object) {
    for (key, value) in source {
        if !target.contains_key(key) {
            target.insert(key.clone(), value.clone());
        }
    }
}
