//! JSON with its keys in the order of its text, for what clients see of that order: what strict decoding minds, and the
//! object that a refused patch would have made.
//!
//! Upstream decodes and patches texts, not trees. Its encoder writes fields in the order of their declaration, a patch
//! sorts the maps that it enters and leaves the rest as it was written, and strict decoding complains as it reads on.

mod complaints;
mod patch;

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};
use trireme_machinery::go;
use trireme_machinery::schema::{Schema, Shape, TypeId};

pub(crate) use complaints::in_order;

/// A value whose maps know their order. A key may stand twice.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Text {
    /// Anything but a map or a list.
    Scalar(Value),
    /// A map.
    Map(Vec<(String, Text)>),
    /// A list.
    List(Vec<Text>),
}

// === impl Text ===

impl Text {
    /// Reads a text. None where it nests deeper than anything that a client wants to see the order of.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text).ok()
    }

    /// An object as upstream encodes it: fields as they are declared, free keys sorted.
    pub(crate) fn of(value: &Value, schema: &Schema, ty: Option<TypeId>) -> Self {
        match value {
            Value::Array(list) => {
                let ty = ty.and_then(|ty| listed(schema, ty));
                Self::List(list.iter().map(|item| Self::of(item, schema, ty)).collect())
            }
            Value::Object(map) => {
                let fields = ty.map(|ty| declared(schema, ty)).unwrap_or_default();
                let child = |key: &str| ty.and_then(|ty| child(schema, ty, key));
                let mut entries: Vec<(String, Self)> = Vec::with_capacity(map.len());
                let first = fields.iter().filter_map(|name| map.get_key_value(*name));
                let rest = map.iter().filter(|(key, _)| !fields.contains(&key.as_str()));
                for (key, value) in first.chain(rest) {
                    entries.push((key.clone(), Self::of(value, schema, child(key))));
                }
                Self::Map(entries)
            }
            scalar => Self::Scalar(scalar.clone()),
        }
    }

    /// As Go's encoder writes it, without blanks.
    pub(crate) fn json(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Scalar(value) => out.push_str(&go::json(value)),
            Self::List(list) => {
                out.push('[');
                for (i, item) in list.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Self::Map(entries) => {
                out.push('{');
                for (i, (key, value)) in entries.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    out.push_str(&go::json(&Value::String(key.clone())));
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }
}

/// The shapes that a value of this type may have.
fn shapes(schema: &Schema, ty: TypeId) -> Vec<TypeId> {
    match schema.shape(ty) {
        Shape::AnyOf(types) => types.clone(),
        _ => vec![ty],
    }
}

/// The type of the items of a list.
fn listed(schema: &Schema, ty: TypeId) -> Option<TypeId> {
    shapes(schema, ty).into_iter().find_map(|ty| match schema.shape(ty) {
        Shape::List { of, .. } => Some(*of),
        _ => None,
    })
}

/// The fields of an object, as they are declared.
fn declared(schema: &Schema, ty: TypeId) -> Vec<&str> {
    let object = shapes(schema, ty).into_iter().find_map(|ty| match schema.shape(ty) {
        Shape::Object(object) => Some(object),
        _ => None,
    });
    object.map(|object| object.fields.iter().map(|field| &*field.name).collect()).unwrap_or_default()
}

fn child(schema: &Schema, ty: TypeId, key: &str) -> Option<TypeId> {
    shapes(schema, ty).into_iter().find_map(|ty| schema.child(ty, key))
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Text, E> {
        Ok(Text::Scalar(Value::Null))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Text, E> {
        Ok(Text::Scalar(value.into()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Text, E> {
        Ok(Text::Scalar(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Text, E> {
        Ok(Text::Scalar(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Text, E> {
        Ok(Text::Scalar(Number::from_f64(value).map_or(Value::Null, Value::Number)))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Text, E> {
        Ok(Text::Scalar(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Text, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Text::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Text, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Text::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trireme_kinds::Registry;

    use super::*;

    #[test]
    fn a_text_is_read_as_it_stands_and_written_as_go_does() {
        let text = r#"{"b":[1,-2,1.5,null,true],"a":{"z":"<&>","b":{}},"b":"again"}"#;
        let written = text.replace("<&>", "\\u003c\\u0026\\u003e");
        assert_eq!(Text::read(text.as_bytes()).unwrap().json(), written);
        assert_eq!(Text::read(b"{nope"), None);
        assert_eq!(Text::read("[".repeat(100_000).as_bytes()), None);
    }

    /// The order of k8s.io/api's structures.
    #[test]
    fn fields_stand_as_they_are_declared() {
        let kind = Registry::builtin().by_kind("autoscaling", "v1", "HorizontalPodAutoscaler").unwrap();
        let object = json!({
            "apiVersion": "autoscaling/v1",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"annotations": {"b": "", "a": ""}, "name": "web", "labels": {}, "namespace": "n"},
            "spec": {"maxReplicas": 3, "minReplicas": 1, "scaleTargetRef": {"apiVersion": "v1", "kind": "K", "name": "n"}},
        });
        assert_eq!(
            Text::of(&object, &kind.schema, Some(kind.ty)).json(),
            "{\"kind\":\"HorizontalPodAutoscaler\",\"apiVersion\":\"autoscaling/v1\",\
             \"metadata\":{\"name\":\"web\",\"namespace\":\"n\",\"labels\":{},\"annotations\":{\"a\":\"\",\"b\":\"\"}},\
             \"spec\":{\"scaleTargetRef\":{\"kind\":\"K\",\"name\":\"n\",\"apiVersion\":\"v1\"},\
             \"minReplicas\":1,\"maxReplicas\":3}}"
        );
    }
}
