//! JSON patch: a list of operations, applied one after the other or not at all.

use serde_json::Value;

use crate::Error;
use crate::codec::KEPT_DEPTH;
use crate::codec::json::kind_of;

/// A patch of more operations is not taken.
pub const MAX_OPERATIONS: usize = 10_000;
/// All `copy` operations of a patch together may not copy more bytes.
const MAX_COPIED: usize = 3 << 20;

/// How often the depth of an object is measured while it is patched.
const MAX_MEASURED: usize = 100;

/// A JSON patch, read.
#[derive(Debug, Clone, PartialEq)]
pub struct Patch {
    operations: Vec<Operation>,
    /// What strict decoding minds, in its words.
    pub complaints: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
struct Operation {
    op: Option<String>,
    path: Option<String>,
    from: Option<String>,
    value: Option<Value>,
}

// === impl Patch ===

impl Patch {
    /// Reads a patch.
    pub fn decode(patch: &Value) -> Result<Self, Error> {
        let refused = |what: String| Error::PatchForm(format!("error decoding patch: json: cannot unmarshal {what}"));
        let list = match patch {
            Value::Array(list) => list.as_slice(),
            Value::Null => &[],
            other => return Err(refused(format!("{} into Go value of type []handlers.jsonPatchOp", kind_of(other)))),
        };
        let mut operations = Vec::with_capacity(list.len());
        let mut complaints = Vec::new();
        for (i, item) in list.iter().enumerate() {
            let Value::Object(map) = item else {
                return Err(refused(format!("{} into Go value of type handlers.jsonPatchOp", kind_of(item))));
            };
            let text = |name: &str| match map.get(name) {
                None | Some(Value::Null) => Ok(None),
                Some(Value::String(text)) => Ok(Some(text.clone())),
                Some(other) => {
                    Err(refused(format!("{} into Go struct field jsonPatchOp.{name} of type string", kind_of(other))))
                }
            };
            operations.push(Operation {
                op: text("op")?,
                path: text("path")?,
                from: text("from")?,
                value: map.get("value").cloned(),
            });
            let unknown = map.keys().filter(|key| !matches!(key.as_str(), "op" | "path" | "from" | "value"));
            complaints.extend(unknown.map(|key| format!("json patch unknown field \"[{i}].{key}\"")));
        }
        if operations.len() > MAX_OPERATIONS {
            return Err(Error::PatchTooLarge(format!(
                "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
                operations.len()
            )));
        }
        Ok(Self { operations, complaints })
    }

    /// The object with all operations done.
    pub fn apply(&self, object: &Value) -> Result<Value, Error> {
        let mut object = object.clone();
        let mut copied = 0;
        let mut depth = Depth::of(&object);
        for operation in &self.operations {
            depth.admit(operation, &object).map_err(Error::PatchApply)?;
            operation.apply(&mut object, &mut copied).map_err(Error::PatchApply)?;
        }
        Ok(object)
    }
}

// === impl Operation ===

impl Operation {
    fn apply(&self, object: &mut Value, copied: &mut usize) -> Result<(), String> {
        let op = self.op.as_deref().unwrap_or("unknown");
        let path =
            || self.path.as_deref().ok_or_else(|| format!("{op} operation failed to decode path: missing value"));
        let from =
            || self.from.as_deref().ok_or_else(|| format!("{op} operation failed to decode from: missing value"));
        let value = || self.value.clone().unwrap_or_default();
        match op {
            "add" => add(object, path()?, value()),
            "remove" => remove(object, path()?).map(|_| ()),
            "replace" => replace(object, path()?, value()),
            "test" => test(object, path()?, &value()),
            "move" => {
                let moved = remove(object, from()?)?;
                add(object, path()?, moved)
            }
            "copy" => {
                let copy = lookup(object, from()?)?.clone();
                *copied += copy.to_string().len();
                if *copied > MAX_COPIED {
                    return Err(format!(
                        "unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the limit {MAX_COPIED}"
                    ));
                }
                add(object, path()?, copy)
            }
            other => Err(format!("Unexpected kind: {other}")),
        }
    }
}

/// How deep the patched object is at most: operations could make it deeper than anything may walk over.
struct Depth {
    most: usize,
    measured: usize,
}

// === impl Depth ===

impl Depth {
    fn of(object: &Value) -> Self {
        Self { most: depth(object), measured: 1 }
    }

    /// Refuses an operation that would make the object too deep.
    fn admit(&mut self, operation: &Operation, object: &Value) -> Result<(), String> {
        let steps = |path: &Option<String>| path.as_deref().unwrap_or_default().matches('/').count();
        let reach = |most: usize| match operation.op.as_deref() {
            Some("add" | "replace") => steps(&operation.path) + operation.value.as_ref().map_or(0, depth),
            Some("move" | "copy") => steps(&operation.path) + most.saturating_sub(steps(&operation.from)),
            _ => 0,
        };
        if reach(self.most) > KEPT_DEPTH && self.measured < MAX_MEASURED {
            // What was taken out and put elsewhere counted for more than it was.
            (self.most, self.measured) = (depth(object), self.measured + 1);
        }
        self.most = self.most.max(reach(self.most));
        if self.most > KEPT_DEPTH { Err("exceeded max depth".to_owned()) } else { Ok(()) }
    }
}

/// How many lists and maps lie in each other.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// The list or map that holds what `path` names, and the last step of the path.
fn holder<'a>(object: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), String> {
    let missing = || format!("doc is missing path: \"{path}\"");
    let (above, last) = path.rsplit_once('/').ok_or_else(missing)?;
    let mut place = object;
    for step in above.split('/').skip(1) {
        let step = unescape(step);
        place = match place {
            Value::Object(map) => map.get_mut(&step),
            Value::Array(list) => index(list.len(), &step).ok().and_then(|at| list.get_mut(at)),
            _ => None,
        }
        .ok_or_else(missing)?;
    }
    if place.is_object() || place.is_array() { Ok((place, unescape(last))) } else { Err(missing()) }
}

fn add(object: &mut Value, path: &str, value: Value) -> Result<(), String> {
    let (place, step) = holder(object, path)?;
    match place {
        Value::Object(map) => {
            map.insert(step, value);
        }
        Value::Array(list) if step == "-" => list.push(value),
        Value::Array(list) => {
            let at = index(list.len() + 1, &step)?;
            list.insert(at, value);
        }
        _ => {}
    }
    Ok(())
}

fn remove(object: &mut Value, path: &str) -> Result<Value, String> {
    let (place, step) = holder(object, path)?;
    match place {
        Value::Object(map) => map.remove(&step).ok_or_else(|| format!("Unable to remove nonexistent key: {step}")),
        Value::Array(list) => Ok(list.remove(index(list.len(), &step)?)),
        _ => Err(format!("doc is missing path: \"{path}\"")),
    }
}

/// A key of a map that is not there is made.
fn replace(object: &mut Value, path: &str, value: Value) -> Result<(), String> {
    if path.is_empty() {
        if !(value.is_object() || value.is_array()) {
            return Err("replace operation value must be object or array".to_owned());
        }
        *object = value;
        return Ok(());
    }
    let (place, step) = holder(object, path)?;
    match place {
        Value::Object(map) => {
            map.insert(step, value);
        }
        Value::Array(list) => {
            let at = index(list.len(), &step)?;
            list[at] = value;
        }
        _ => {}
    }
    Ok(())
}

fn test(object: &mut Value, path: &str, value: &Value) -> Result<(), String> {
    let found = if path.is_empty() { &*object } else { lookup(object, path)? };
    if found == value { Ok(()) } else { Err(format!("testing value {path} failed")) }
}

/// A key of a map that is not there is null.
fn lookup<'a>(object: &'a mut Value, path: &str) -> Result<&'a Value, String> {
    const NOTHING: &Value = &Value::Null;
    let (place, step) = holder(object, path)?;
    match place {
        Value::Object(map) => Ok(map.get(&step).unwrap_or(NOTHING)),
        Value::Array(list) => Ok(&list[index(list.len(), &step)?]),
        _ => Ok(NOTHING),
    }
}

/// An index below `length`; negative ones count from the end.
fn index(length: usize, step: &str) -> Result<usize, String> {
    let number: i64 = step.parse().map_err(|_| format!("value was not a proper array index: '{step}'"))?;
    let at = if number < 0 { number + length as i64 } else { number };
    usize::try_from(at)
        .ok()
        .filter(|at| *at < length)
        .ok_or_else(|| format!("Unable to access invalid index: {number}"))
}

fn unescape(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(object: Value, patch: Value) -> Result<Value, Error> {
        Patch::decode(&patch)?.apply(&object)
    }

    #[test]
    fn operations_do_what_rfc_6902_says() {
        let object = json!({"a": {"b~/c": 1}, "list": [1, 2, 3], "p": false});
        for (patch, result) in [
            (
                json!([{"op": "add", "path": "/a/x", "value": 5}]),
                json!({"a": {"b~/c": 1, "x": 5}, "list": [1, 2, 3], "p": false}),
            ),
            (
                json!([{"op": "replace", "path": "/a/b~0~1c", "value": 2}]),
                json!({"a": {"b~/c": 2}, "list": [1, 2, 3], "p": false}),
            ),
            (
                json!([{"op": "add", "path": "/list/-", "value": 4}]),
                json!({"a": {"b~/c": 1}, "list": [1, 2, 3, 4], "p": false}),
            ),
            (
                json!([{"op": "add", "path": "/list/0", "value": 0}]),
                json!({"a": {"b~/c": 1}, "list": [0, 1, 2, 3], "p": false}),
            ),
            (json!([{"op": "remove", "path": "/list/-1"}]), json!({"a": {"b~/c": 1}, "list": [1, 2], "p": false})),
            (
                json!([{"op": "move", "from": "/list/0", "path": "/first"}]),
                json!({"a": {"b~/c": 1}, "list": [2, 3], "first": 1, "p": false}),
            ),
            (
                json!([{"op": "copy", "from": "/a", "path": "/list/1"}]),
                json!({"a": {"b~/c": 1}, "list": [1, {"b~/c": 1}, 2, 3], "p": false}),
            ),
            (
                json!([{"op": "test", "path": "/none", "value": null}, {"op": "replace", "path": "", "value": {}}]),
                json!({}),
            ),
        ] {
            assert_eq!(patched(object.clone(), patch.clone()), Ok(result), "{patch}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_as_a_whole() {
        for patch in [
            json!([{"op": "frob", "path": "/x"}]),
            json!([{"op": "remove", "path": "/none"}]),
            json!([{"op": "add", "path": "/list/7", "value": 1}]),
            json!([{"op": "replace", "path": "/none/x", "value": 1}]),
            json!([{"op": "test", "path": "/p", "value": true}]),
            json!([{"op": "add", "value": 1}]),
            json!([{"op": "add", "path": "x", "value": 1}]),
            json!([{"op": "replace", "path": "/p/x", "value": 1}]),
        ] {
            let refused = patched(json!({"list": [1], "p": false}), patch.clone());
            assert!(matches!(refused, Err(Error::PatchApply(_))), "{patch}: {refused:?}");
        }
        let big = json!({"a": "x".repeat(1 << 20)});
        let copies: Vec<Value> =
            (0..4).map(|i| json!({"op": "copy", "from": "/a", "path": format!("/b{i}")})).collect();
        assert!(matches!(patched(big, json!(copies)), Err(Error::PatchApply(_))));
    }

    #[test]
    fn no_sequence_of_operations_nests_without_end() {
        let lists = |depth: usize| (0..depth).fold(json!(0), |inner, _| json!([inner]));
        let deeper = |from: &str, depth: usize| format!("{from}{}", "/0".repeat(depth));
        // Each of 100 values is at the bottom of the one before.
        let adds: Vec<Value> =
            (0..100).map(|n| json!({"op": "add", "path": deeper("/x", n * 999), "value": lists(999)})).collect();
        assert!(matches!(patched(json!({}), json!(adds)), Err(Error::PatchApply(_))));
        let copies: Vec<Value> = (0..5000).map(|_| json!({"op": "copy", "from": "/a", "path": "/a/a"})).collect();
        assert!(matches!(patched(json!({"a": {}}), json!(copies)), Err(Error::PatchApply(_))));
        // To and fro is not deeper and deeper.
        let moves: Vec<Value> = (0..MAX_OPERATIONS)
            .map(|n| match n % 2 {
                0 => json!({"op": "move", "from": "/a", "path": "/b/b/b/b/b"}),
                _ => json!({"op": "move", "from": "/b/b/b/b/b", "path": "/a"}),
            })
            .collect();
        let object = json!({"a": {"x": 1}, "b": {"b": {"b": {"b": {}}}}});
        assert_eq!(patched(object.clone(), json!(moves)), Ok(object));
    }

    #[test]
    fn the_form_is_checked_in_gos_words() {
        assert_eq!(
            Patch::decode(&json!({"op": "add"})).unwrap_err().to_string(),
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        );
        assert_eq!(
            Patch::decode(&json!([{"op": 5}])).unwrap_err().to_string(),
            "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"
        );
        assert_eq!(
            Patch::decode(&json!([{"op": "add", "x": 1}])).unwrap().complaints,
            ["json patch unknown field \"[0].x\""]
        );
        let many = json!(vec![json!({"op": "test", "path": ""}); MAX_OPERATIONS + 1]);
        assert_eq!(
            Patch::decode(&many).unwrap_err().to_string(),
            "The allowed maximum operations in a JSON patch is 10000, got 10001"
        );
    }
}
