//! Kubernetes' protobuf, read: by the schema alone, into the JSON that stands for it.
//!
//! A body begins with `k8s\0`; then comes a message with `apiVersion`, `kind` and the object's own message. What is not set
//! is absent in the result, what is empty is empty: settling that is the schema's decoder's business.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Number, Value};

use crate::schema::{Object, Schema, Shape, TypeId};
use crate::{Error, time};

/// What a body begins with.
pub const MAGIC: &[u8] = b"k8s\0";
/// How deep messages may nest.
const MAX_DEPTH: usize = 128;

/// The envelope of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown<'a> {
    /// As `apps/v1`.
    pub api_version: String,
    /// As `Deployment`.
    pub kind: String,
    /// The object's own message.
    pub raw: &'a [u8],
}

/// Opens the envelope of a body.
pub fn open(body: &[u8]) -> Result<Unknown<'_>, Error> {
    let rest = body.strip_prefix(MAGIC).ok_or_else(|| {
        Error::Protobuf(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]".to_owned(),
        )
    })?;
    let mut unknown = Unknown { api_version: String::new(), kind: String::new(), raw: &[] };
    for field in fields(rest) {
        match field? {
            (1, Wire::Bytes(meta)) => {
                for field in fields(meta) {
                    match field? {
                        (1, Wire::Bytes(bytes)) => unknown.api_version = text(bytes)?,
                        (2, Wire::Bytes(bytes)) => unknown.kind = text(bytes)?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(raw)) => unknown.raw = raw,
            _ => {}
        }
    }
    Ok(unknown)
}

/// Reads a message of a type.
pub fn decode(schema: &Schema, ty: TypeId, message: &[u8]) -> Result<Value, Error> {
    Reader { schema }.message(ty, message, 0)
}

/// A field's content.
#[derive(Debug, Clone, Copy)]
enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

struct Reader<'a> {
    schema: &'a Schema,
}

// === impl Reader ===

impl Reader<'_> {
    /// A value that is a message of its own.
    fn message(&self, ty: TypeId, message: &[u8], depth: usize) -> Result<Value, Error> {
        if depth > MAX_DEPTH {
            return Err(broken("exceeded max depth"));
        }
        match self.schema.shape(ty) {
            Shape::Object(object) => {
                let mut map = Map::new();
                self.object(object, &[], message, depth, &mut map)?;
                Ok(Value::Object(map))
            }
            Shape::Time | Shape::MicroTime => self.instant(ty, message),
            Shape::Duration => {
                let nanos = number(message, 1)?;
                Ok(Value::String(format!("{nanos}ns")))
            }
            Shape::Quantity => Ok(Value::String(text(bytes(message, 1)?.unwrap_or_default())?)),
            Shape::IntOrString => match number(message, 1)? {
                0 => Ok(number(message, 2)?.into()),
                _ => Ok(Value::String(text(bytes(message, 3)?.unwrap_or_default())?)),
            },
            Shape::Any => match bytes(message, 1)? {
                Some(raw) if !raw.is_empty() => super::json::parse(raw).map(|parsed| parsed.value),
                _ => Ok(Value::Null),
            },
            // A list in a place where a message has to be: one that holds its items.
            Shape::List { .. } => {
                let mut list = Value::Null;
                for field in fields(message) {
                    if let (1, wire) = field? {
                        self.add(ty, wire, depth + 1, &mut list)?;
                    }
                }
                Ok(list)
            }
            Shape::AnyOf(types) => self.any_of(types, message, depth),
            Shape::Map { .. } => {
                let mut map = Value::Null;
                for field in fields(message) {
                    if let (1, wire) = field? {
                        self.add(ty, wire, depth + 1, &mut map)?;
                    }
                }
                Ok(map)
            }
            Shape::Bool | Shape::Int32 | Shape::Int64 | Shape::Double | Shape::String | Shape::Bytes => {
                Err(broken("a message where a scalar was expected"))
            }
        }
    }

    /// The fields of an object's message. `around` are the numbers of the messages that are fields of the same object in
    /// JSON.
    fn object(
        &self,
        object: &Object,
        around: &[u32],
        message: &[u8],
        depth: usize,
        out: &mut Map<String, Value>,
    ) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(broken("exceeded max depth"));
        }
        for field in fields(message) {
            let (tag, wire) = field?;
            let own = object.fields.iter().find(|field| field.proto_number == tag && field.proto_embedded == around);
            if let Some(field) = own {
                let value = out.entry(field.name.to_string()).or_insert(Value::Null);
                self.add(field.ty, wire, depth + 1, value)?;
                continue;
            }
            let mut inner = around.to_vec();
            inner.push(tag);
            let embedded = object.fields.iter().any(|field| field.proto_embedded.starts_with(&inner));
            if let (true, Wire::Bytes(message)) = (embedded, wire) {
                self.object(object, &inner, message, depth + 1, out)?;
            }
        }
        Ok(())
    }

    /// One occurrence of a field: lists and maps grow, everything else is replaced.
    fn add(&self, ty: TypeId, wire: Wire<'_>, depth: usize, into: &mut Value) -> Result<(), Error> {
        match self.schema.shape(ty) {
            Shape::List { of, .. } => {
                let item = self.value(*of, wire, depth)?;
                match into {
                    Value::Array(items) => items.push(item),
                    other => *other = Value::Array(vec![item]),
                }
            }
            Shape::Map { of, .. } => {
                let Wire::Bytes(entry) = wire else { return Err(broken("a map entry that is no message")) };
                let key = text(bytes(entry, 1)?.unwrap_or_default())?;
                let mut value = crate::schema::zero::zero(self.schema, *of);
                for field in fields(entry) {
                    if let (2, wire) = field? {
                        value = self.value(*of, wire, depth)?;
                    }
                }
                match into {
                    Value::Object(map) => _ = map.insert(key, value),
                    other => *other = Value::Object(Map::from_iter([(key, value)])),
                }
            }
            _ => *into = self.value(ty, wire, depth)?,
        }
        Ok(())
    }

    fn value(&self, ty: TypeId, wire: Wire<'_>, depth: usize) -> Result<Value, Error> {
        match (self.schema.shape(ty), wire) {
            (Shape::Bool, Wire::Varint(number)) => Ok(Value::Bool(number != 0)),
            (Shape::Int32 | Shape::Int64, Wire::Varint(number)) => Ok(number.cast_signed().into()),
            (Shape::Double, Wire::Fixed64(bits)) => {
                Ok(Number::from_f64(f64::from_bits(bits)).map_or(Value::Null, Value::Number))
            }
            (Shape::Double, Wire::Fixed32(bits)) => {
                Ok(Number::from_f64(f32::from_bits(bits).into()).map_or(Value::Null, Value::Number))
            }
            (Shape::String, Wire::Bytes(bytes)) => text(bytes).map(Value::String),
            (Shape::Bytes, Wire::Bytes(bytes)) => Ok(Value::String(STANDARD.encode(bytes))),
            (_, Wire::Bytes(message)) => self.message(ty, message, depth),
            _ => Err(broken("a field of another type")),
        }
    }

    /// Seconds and nanoseconds; neither is no time.
    fn instant(&self, ty: TypeId, message: &[u8]) -> Result<Value, Error> {
        let (seconds, nanos) = (number(message, 1)?, number(message, 2)?);
        if seconds == 0 && nanos == 0 {
            return Ok(Value::Null);
        }
        let nanos = i32::try_from(nanos).map_err(|_| broken("a time that is none"))?;
        let at = Timestamp::new(seconds, nanos).map_err(|_| broken("a time that is none"))?;
        if time::is_zero(at) {
            return Ok(Value::Null);
        }
        let micro = matches!(self.schema.shape(ty), Shape::MicroTime);
        Ok(Value::String(if micro { time::format_micro(at) } else { time::format(at) }))
    }

    /// `JSONSchemaPropsOrBool` and its like: the first field is the scalar or the one, the second the other.
    fn any_of(&self, types: &[TypeId], message: &[u8], depth: usize) -> Result<Value, Error> {
        let mut out = Value::Null;
        for field in fields(message) {
            let (_, wire) = field?;
            for ty in types {
                let mut value = out.clone();
                let fits = match (self.schema.shape(*ty), wire) {
                    (Shape::Bool, Wire::Varint(_)) => true,
                    (Shape::Bool, _) => false,
                    (_, Wire::Bytes(_)) => true,
                    _ => false,
                };
                if fits && self.add(*ty, wire, depth + 1, &mut value).is_ok() && (out.is_null() || !value.is_boolean())
                {
                    out = value;
                    break;
                }
            }
        }
        Ok(out)
    }
}

/// The fields of a message, one after the other.
fn fields(mut rest: &[u8]) -> impl Iterator<Item = Result<(u32, Wire<'_>), Error>> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let field = next(&mut rest);
        if field.is_err() {
            rest = &[];
        }
        Some(field)
    })
}

fn next<'a>(rest: &mut &'a [u8]) -> Result<(u32, Wire<'a>), Error> {
    let tag = varint(rest)?;
    let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0).ok_or_else(|| broken("illegal tag"))?;
    let wire = match tag & 7 {
        0 => Wire::Varint(varint(rest)?),
        1 => Wire::Fixed64(u64::from_le_bytes(fixed(rest)?)),
        5 => Wire::Fixed32(u32::from_le_bytes(fixed(rest)?)),
        2 => {
            let length = usize::try_from(varint(rest)?).map_err(|_| broken("unexpected EOF"))?;
            let (bytes, tail) = rest.split_at_checked(length).ok_or_else(|| broken("unexpected EOF"))?;
            *rest = tail;
            Wire::Bytes(bytes)
        }
        other => return Err(broken(&format!("illegal wireType {other}"))),
    };
    Ok((number, wire))
}

fn varint(rest: &mut &[u8]) -> Result<u64, Error> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, tail) = rest.split_first().ok_or_else(|| broken("unexpected EOF"))?;
        *rest = tail;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(broken("integer overflow"))
}

fn fixed<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Error> {
    let (bytes, tail) = rest.split_first_chunk::<N>().ok_or_else(|| broken("unexpected EOF"))?;
    *rest = tail;
    Ok(*bytes)
}

/// The number in a field of a small message; 0 if it is not there.
fn number(message: &[u8], wanted: u32) -> Result<i64, Error> {
    let mut found = 0;
    for field in fields(message) {
        if let (number, Wire::Varint(value)) = field?
            && number == wanted
        {
            found = value.cast_signed();
        }
    }
    Ok(found)
}

/// The bytes in a field of a small message.
fn bytes(message: &[u8], wanted: u32) -> Result<Option<&[u8]>, Error> {
    let mut found = None;
    for field in fields(message) {
        if let (number, Wire::Bytes(bytes)) = field?
            && number == wanted
        {
            found = Some(bytes);
        }
    }
    Ok(found)
}

fn text(bytes: &[u8]) -> Result<String, Error> {
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

fn broken(why: &str) -> Error {
    Error::Protobuf(format!("proto: {why}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::schema::{Field, Presence, SchemaBuilder, Type};

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut builder = SchemaBuilder::default();
            let item = builder.reserve("x", "x");
            let list = builder.add(Type { name: "".into(), go: "".into(), shape: Shape::List { of: item, kind: Default::default() }, defaults: None });
            let field = |name: &str, ty, number| Field {
                name: name.into(), ty, required: false, presence: Presence::OmitNil, default: None, enum_values: Vec::new(),
                atomic: false, patch_strategy: Default::default(), patch_merge_key: None, proto_number: number,
                embedded: "".into(), proto_embedded: Vec::new(),
            };
            builder.define(item, Shape::Object(Object::new(vec![field("a", list, 1), field("b", item, 2)])));
            let schema = builder.build();
            let _ = decode(&schema, item, &body);
            let _ = open(&[MAGIC, &body].concat());
        }
    }

    #[test]
    fn an_envelope_is_opened() {
        let body = b"k8s\0\n\t\n\x02v1\x12\x03Pod\x12\x02\n\0";
        assert_eq!(open(body).unwrap(), Unknown { api_version: "v1".to_owned(), kind: "Pod".to_owned(), raw: b"\n\0" });
        assert!(open(b"{}").unwrap_err().to_string().starts_with("provided data does not appear"));
        assert_eq!(open(b"k8s\0\n\x7f").unwrap_err().to_string(), "proto: unexpected EOF");
    }
}
