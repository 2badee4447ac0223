//! What two answers have in common: everything but what differs from run to run.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

/// The answer without what differs from run to run, and without managedFields.
pub(crate) fn normal(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut out = Map::new();
            for (key, value) in map {
                let value = match (key.as_str(), value) {
                    ("managedFields", _) => continue,
                    ("resourceVersion", v) if !v.is_null() && v != "" && v != "0" => Value::from("<rv>"),
                    ("uid", v) if v.as_str().is_some_and(|s| !s.is_empty()) => Value::from("<uid>"),
                    ("nodePort" | "healthCheckNodePort", v) if v.is_number() || v == "<port>" => Value::from("<port>"),
                    ("name", Value::String(name)) if map.contains_key("generateName") && name.ends_with("xxxxx") => {
                        Value::String(name.replace("xxxxx", "<suffix>"))
                    }
                    (_, value) => normal(value),
                };
                out.insert(key.clone(), value);
            }
            if map.get("kind").is_some_and(|k| k == "Status") {
                sort_causes(&mut out);
            }
            Value::Object(out)
        }
        Value::Array(items) => Value::Array(items.iter().map(normal).collect()),
        Value::String(text) => Value::String(unstate(text)),
        other => other.clone(),
    }
}

/// The order of causes is not fixed, so neither is that of the message made from them.
fn sort_causes(status: &mut Map<String, Value>) {
    let Some(causes) = status.get_mut("details").and_then(|d| d.get_mut("causes")).and_then(Value::as_array_mut) else {
        return;
    };
    causes.sort_by_key(Value::to_string);
    if causes.len() > 1
        && let Some(message) = status.get("message").and_then(Value::as_str)
        && let Some((head, _)) = message.split_once(" is invalid: ")
    {
        let message = format!("{head} is invalid: [causes]");
        status.insert("message".to_owned(), Value::from(message));
    }
}

fn unstate(text: &str) -> String {
    static TIME: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)").unwrap());
    if text.starts_with("10.96.") {
        return "<ip>".to_owned();
    }
    let text = TIME.replace_all(text, "<time>");
    let text = text.replace("kube-api-access-xxxxx", "kube-api-access-<suffix>");
    text.replace("11111111-1111-1111-1111-111111111111", "<uid>")
}

/// Where two values differ.
pub(crate) fn differences(want: &Value, got: &Value, path: &str, out: &mut Vec<String>) {
    match (want, got) {
        (Value::Object(a), Value::Object(b)) => {
            let mut keys: Vec<&String> = a.keys().chain(b.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let at = format!("{path}.{key}");
                match (a.get(key), b.get(key)) {
                    (Some(x), Some(y)) => differences(x, y, &at, out),
                    (Some(x), None) => out.push(format!("{at}: kubernetes {x}, here absent")),
                    (None, Some(y)) => out.push(format!("{at}: kubernetes absent, here {y}")),
                    (None, None) => {}
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (i, (x, y)) in a.iter().zip(b).enumerate() {
                differences(x, y, &format!("{path}[{i}]"), out);
            }
        }
        (a, b) if a != b => out.push(format!("{path}: kubernetes {a}, here {b}")),
        _ => {}
    }
}
