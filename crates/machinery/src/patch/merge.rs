//! Merge patch: maps are merged key by key, null removes a key, anything else replaces.

use serde_json::{Map, Value};

use crate::Error;
use crate::codec::json::kind_of;

/// The object with the patch merged in.
pub fn apply(object: &Value, patch: &Value) -> Result<Value, Error> {
    match patch {
        Value::Object(patch) => {
            let mut object = object.clone();
            merge(&mut object, patch);
            Ok(object)
        }
        Value::Null => Err(Error::PatchForm("Invalid JSON Patch".to_owned())),
        other => Err(Error::PatchForm(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            kind_of(other)
        ))),
    }
}

/// The patch that makes `new` of `old`; empty when they are equal.
pub fn diff(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return new.clone() };
    let mut patch = Map::new();
    for (key, value) in new {
        match old.get(key) {
            Some(before) if before == value => {}
            Some(before @ Value::Object(_)) if value.is_object() => {
                patch.insert(key.clone(), diff(before, value));
            }
            _ => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    Value::Object(patch)
}

fn merge(object: &mut Value, patch: &Map<String, Value>) {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Value::Object(map) = object else { return };
    for (key, value) in patch {
        match (map.get_mut(key), value) {
            (_, Value::Null) => {
                map.remove(key);
            }
            (Some(own @ Value::Object(_)), Value::Object(patch)) => merge(own, patch),
            (_, value) => {
                map.insert(key.clone(), without_nulls(value));
            }
        }
    }
}

/// What is new keeps no nulls: there is nothing that they could remove.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key.clone(), without_nulls(value)))
                .collect(),
        ),
        Value::Array(list) => Value::Array(list.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn maps_are_merged_and_the_rest_replaced() {
        let object = json!({"a": {"b": 1, "c": 2}, "l": [1, 2], "s": "x"});
        let patch =
            json!({"a": {"b": null, "d": {"e": null, "f": 1}}, "l": [{"x": null}], "s": {"y": 1}, "none": null});
        assert_eq!(apply(&object, &patch), Ok(json!({"a": {"c": 2, "d": {"f": 1}}, "l": [{}], "s": {"y": 1}})));
    }

    #[test]
    fn a_patch_is_a_map() {
        assert_eq!(apply(&json!({}), &Value::Null).unwrap_err().to_string(), "Invalid JSON Patch");
        assert_eq!(
            apply(&json!({}), &json!([])).unwrap_err().to_string(),
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
        );
    }

    fn tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<i64>().prop_map(Value::from), "[a-c]{1,2}".prop_map(Value::from)];
        let map = leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                prop::collection::btree_map("[a-d]", inner.clone(), 0..4).prop_map(|map| json!(map)),
                prop::collection::vec(inner, 0..3).prop_map(Value::Array),
            ]
        });
        prop::collection::btree_map("[a-d]", map, 0..4).prop_map(|map| json!(map))
    }

    proptest! {
        #[test]
        fn a_diff_leads_from_old_to_new(old in tree(), new in tree()) {
            prop_assert_eq!(apply(&old, &diff(&old, &new)).unwrap(), new);
        }
    }
}
