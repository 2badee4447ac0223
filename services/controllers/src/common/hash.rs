//! A short name for a template, stable over restarts.

use serde_json::Value;

use super::names::ALPHABET;

/// FNV-1a of the value's JSON (whose maps are ordered) and of how often its name was taken, in the alphabet of names.
pub(crate) fn short(value: &Value, collisions: Option<i32>) -> String {
    let mut hash: u32 = 0x811c_9dc5;
    let mut add = |byte: u8| hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    value.to_string().bytes().for_each(&mut add);
    collisions.into_iter().flat_map(i32::to_le_bytes).for_each(&mut add);
    hash.to_string().bytes().map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()])).collect()
}

/// The value without what is empty or null: two templates that differ only there are the same.
pub(crate) fn without_empty(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().map(|(name, value)| (name, without_empty(value)));
            Value::Object(kept.filter(|(_, value)| !is_empty(value)).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_empty).collect()),
        other => other,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        // An empty struct like emptyDir says something; an empty map of labels does not, but both sides have it alike
        // after decoding, so only what is absent is left out.
        Value::Object(_) | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_same_template_has_the_same_name() {
        let (a, b) = (json!({"x": 1, "y": [2]}), json!({"y": [2], "x": 1}));
        assert_eq!(short(&a, None), short(&b, None));
        assert_ne!(short(&a, None), short(&a, Some(1)));
        assert_ne!(short(&a, None), short(&json!({"x": 2, "y": [2]}), None));
        assert!((1..=10).contains(&short(&a, None).len()));
    }

    #[test]
    fn absent_is_like_null() {
        assert_eq!(without_empty(json!({"a": null, "b": [], "c": {"d": null}})), json!({"c": {}}));
    }
}
