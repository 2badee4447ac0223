//! `FieldsV1`: a set of field paths as JSON.

use serde_json::{Map, Value};

use super::set::{Element, Set};

/// Writes a set: `{"f:spec":{"f:replicas":{}}}`. A path that is a member and leads on holds a dot.
pub fn write(set: &Set) -> Value {
    let mut map = Map::new();
    for element in &set.members {
        map.insert(name(element), Value::Object(Map::new()));
    }
    for (element, below) in set.children.iter().filter(|(_, below)| !below.is_empty()) {
        let mut inner = match write(below) {
            Value::Object(inner) => inner,
            _ => Map::new(),
        };
        if set.members.contains(element) {
            inner.insert(".".to_owned(), Value::Object(Map::new()));
        }
        map.insert(name(element), Value::Object(inner));
    }
    Value::Object(map)
}

/// Reads a set; `None` if it is none.
pub fn read(value: &Value) -> Option<Set> {
    let mut set = Set::default();
    for (key, below) in value.as_object()? {
        if key == "." {
            continue;
        }
        let element = element(key)?;
        let inner = below.as_object()?;
        if inner.is_empty() || inner.contains_key(".") {
            set.members.insert(element.clone());
        }
        if inner.keys().any(|key| key != ".") {
            set.children.insert(element, read(below)?);
        }
    }
    Some(set)
}

fn name(element: &Element) -> String {
    match element {
        Element::Field(field) => format!("f:{field}"),
        Element::Value(value) => format!("v:{value}"),
        Element::Index(index) => format!("i:{index}"),
        Element::Key(pairs) => {
            let pairs: Vec<String> =
                pairs.iter().map(|(key, value)| format!("{}:{value}", Value::from(key.as_str()))).collect();
            format!("k:{{{}}}", pairs.join(","))
        }
    }
}

fn element(name: &str) -> Option<Element> {
    let (kind, rest) = name.split_once(':')?;
    match kind {
        "f" => Some(Element::field(rest)),
        "v" => serde_json::from_str::<Value>(rest).ok().map(|value| Element::Value(value.to_string())),
        "i" => rest.parse().ok().map(Element::Index),
        "k" => {
            let map: Map<String, Value> = serde_json::from_str(rest).ok()?;
            Some(Element::Key(map.into_iter().map(|(key, value)| (key, value.to_string())).collect()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sets_come_back() {
        let fields = json!({
            "f:metadata": {"f:labels": {".": {}, "f:a": {}}, "f:finalizers": {".": {}, "v:\"x\"": {}}},
            "f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}, "f:ports": {
                "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}}}},
        });
        let set = read(&fields).unwrap();
        assert_eq!(write(&set), fields);
        assert!(read(&json!({"x": {}})).is_none());
        assert!(read(&json!([])).is_none());
    }
}
