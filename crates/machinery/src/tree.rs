//! Reading and writing objects by path, where no typed view is at hand.

use serde_json::{Map, Value};

/// The value at `path`, if every step of it is there.
pub fn get<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, step| value.get(step))
}

/// The value at `path` for change.
pub fn get_mut<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, step| value.get_mut(step))
}

/// The text at `path`; empty where there is none.
pub fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    get(value, path).and_then(Value::as_str).unwrap_or_default()
}

/// The whole number at `path`.
pub fn integer(value: &Value, path: &[&str]) -> Option<i64> {
    get(value, path).and_then(Value::as_i64)
}

/// The truth value at `path`.
pub fn boolean(value: &Value, path: &[&str]) -> Option<bool> {
    get(value, path).and_then(Value::as_bool)
}

/// The list at `path`; empty where there is none.
pub fn list<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    get(value, path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The map at `path`.
pub fn map<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Map<String, Value>> {
    get(value, path).and_then(Value::as_object)
}

/// The map at `path`, made with all above it where it is missing (or is something else).
pub fn ensure_map<'a>(value: &'a mut Value, path: &[&str]) -> &'a mut Map<String, Value> {
    match path {
        [] => as_map(value),
        [step, rest @ ..] => ensure_map(as_map(value).entry(*step).or_insert(Value::Null), rest),
    }
}

fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("it was made a map above"),
    }
}

/// Writes `new` at `path`, making the maps above it.
pub fn set(value: &mut Value, path: &[&str], new: impl Into<Value>) {
    match path.split_last() {
        None => *value = new.into(),
        Some((last, above)) => {
            ensure_map(value, above).insert((*last).to_owned(), new.into());
        }
    }
}

/// Writes `new` at `path` unless something stands there already (a null counts as nothing).
pub fn set_default(value: &mut Value, path: &[&str], new: impl Into<Value>) {
    if get(value, path).is_none_or(Value::is_null) {
        set(value, path, new);
    }
}

/// Takes the value at `path` out.
pub fn remove(value: &mut Value, path: &[&str]) -> Option<Value> {
    let (last, above) = path.split_last()?;
    get_mut(value, above)?.as_object_mut()?.remove(*last)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_read_and_written_by_path() {
        let mut object = json!({"spec": {"replicas": 2, "name": "a", "list": [1]}});
        assert_eq!(integer(&object, &["spec", "replicas"]), Some(2));
        assert_eq!(text(&object, &["spec", "nothing"]), "");
        assert_eq!(list(&object, &["spec", "list"]).len(), 1);
        set(&mut object, &["status", "ready"], true);
        set_default(&mut object, &["spec", "replicas"], 7);
        set_default(&mut object, &["spec", "paused"], false);
        assert_eq!(remove(&mut object, &["spec", "list"]), Some(json!([1])));
        assert_eq!(remove(&mut object, &["none", "list"]), None);
        assert_eq!(object, json!({"spec": {"replicas": 2, "name": "a", "paused": false}, "status": {"ready": true}}));
    }
}
