//! Decoding, as Go's `encoding/json` and the API server's serializer do it.
//!
//! [`normalise`] turns what a client sent into what the API server would encode after having decoded it: unknown fields
//! and nulls are gone, empty values stand where Go's encoder writes them and only there, quantities and times are
//! canonical. What does not fit the schema is refused in Go's words. [`restore`] does the same to an object that was put
//! together.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value};

use super::zero::{is_empty, settle, zero};
use super::{Field, Object, Presence, Schema, Shape, TypeId};
use crate::{Error, duration, go, time};

/// What becomes of fields that the schema does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// They are dropped silently.
    Ignore,
    /// They are dropped and told.
    Report,
}

/// A value that does not fit the schema, in the words of Go's decoder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(pub String);

/// More strict errors than this are not told.
const MAX_STRICT_ERRORS: usize = 100;

/// Decodes a value. With [`Strictness::Report`] the second part tells of the dropped fields, as
/// `unknown field "spec.foo"`.
pub fn normalise(
    schema: &Schema,
    ty: TypeId,
    value: Value,
    strictness: Strictness,
) -> Result<(Value, Vec<String>), DecodeError> {
    decoded(schema, ty, value, strictness, false)
}

/// The same of an object that was put together from decoded parts, as a strategic merge patch does. Kubernetes converts
/// such a one without its decoder, and has other words for what does not fit.
pub fn restore(
    schema: &Schema,
    ty: TypeId,
    value: Value,
    strictness: Strictness,
) -> Result<(Value, Vec<String>), DecodeError> {
    decoded(schema, ty, value, strictness, true)
}

fn decoded(
    schema: &Schema,
    ty: TypeId,
    value: Value,
    strictness: Strictness,
    restores: bool,
) -> Result<(Value, Vec<String>), DecodeError> {
    let mut decoder = Decoder {
        schema,
        restores,
        report: strictness == Strictness::Report,
        strict: Vec::new(),
        saved: None,
        path: Vec::new(),
        context: Vec::new(),
    };
    let value = decoder.value(ty, value)?;
    match decoder.saved {
        Some(error) => Err(error),
        None => Ok((value, decoder.strict)),
    }
}

/// Where the decoder stands: a key or an index.
enum Step {
    Key(String),
    Index(usize),
}

/// A field the decoder is inside of, and the type that has it.
struct Frame<'a> {
    owner: TypeId,
    field: &'a Field,
}

struct Decoder<'a> {
    schema: &'a Schema,
    /// Whether the value is put together instead of read.
    restores: bool,
    report: bool,
    strict: Vec<String>,
    /// Go decodes on after a type error and tells the first.
    saved: Option<DecodeError>,
    path: Vec<Step>,
    context: Vec<Frame<'a>>,
}

impl<'a> Decoder<'a> {
    /// An `Err` ends the decoding at once, as an error of Go's custom decoders does.
    fn value(&mut self, ty: TypeId, value: Value) -> Result<Value, DecodeError> {
        let schema = self.schema;
        let go_kind = go_kind(&value);
        let decoded = match (schema.shape(ty), value) {
            (Shape::Any, value) => return Ok(value),
            (Shape::Quantity, value) => return quantity(value),
            (Shape::Time, value) => return self.time(value, time::canonical),
            (Shape::MicroTime, value) => return self.time(value, time::canonical_micro),
            (Shape::Duration, value) => return self.duration(value),
            (Shape::IntOrString, value) => return self.int_or_string(value),
            (Shape::AnyOf(types), value) => {
                return match types.iter().find(|t| schema.accepts(**t, &value)) {
                    Some(ty) => self.value(*ty, value),
                    None => Err(self.mismatch(&kind_of(&value), &schema.get(ty).go)),
                };
            }
            (_, Value::Null) => return Ok(zero(schema, ty)),
            (Shape::Bool, Value::Bool(b)) => Ok(Value::Bool(b)),
            (Shape::String, Value::String(s)) => Ok(Value::String(s)),
            (Shape::Bytes, Value::String(s)) => match STANDARD.decode(s.replace(['\r', '\n'], "")) {
                Ok(bytes) => Ok(Value::String(STANDARD.encode(bytes))),
                Err(_) => {
                    let at = illegal_base64(&s);
                    self.save(DecodeError(format!("illegal base64 data at input byte {at}")));
                    return Ok(Value::Null);
                }
            },
            (Shape::Int32, Value::Number(n)) if n.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) => {
                Ok(Value::Number(n))
            }
            (Shape::Int64, Value::Number(n)) if n.is_i64() => Ok(Value::Number(n)),
            (Shape::Int32 | Shape::Int64, Value::Number(n)) => match shortest(n.clone()) {
                whole if self.restores && whole.is_i64() => Ok(Value::Number(whole)),
                _ => Err(format!("number {n}")),
            },
            (Shape::Double, Value::Number(n)) => Ok(Value::Number(shortest(n))),
            (Shape::List { of, .. }, Value::Array(items)) => return self.list(*of, items),
            (Shape::Map { of, .. }, Value::Object(map)) => return self.map(*of, map),
            (Shape::Object(object), Value::Object(map)) => return self.object(ty, object, map),
            (_, other) => Err(kind_of(&other)),
        };
        Ok(match decoded {
            Ok(value) => value,
            Err(_) if self.restores => {
                return Err(DecodeError(not_restored(schema.shape(ty), go_kind, &schema.get(ty).go)));
            }
            Err(found) => {
                let error = self.mismatch(&found, &schema.get(ty).go);
                self.save(error);
                Value::Null
            }
        })
    }

    fn list(&mut self, of: TypeId, items: Vec<Value>) -> Result<Value, DecodeError> {
        let mut out = Vec::with_capacity(items.len());
        for (i, item) in items.into_iter().enumerate() {
            self.path.push(Step::Index(i));
            out.push(self.value(of, item)?);
            self.path.pop();
        }
        Ok(Value::Array(out))
    }

    fn map(&mut self, of: TypeId, map: Map<String, Value>) -> Result<Value, DecodeError> {
        let mut out = Map::new();
        for (key, value) in map {
            self.path.push(Step::Key(key.clone()));
            let value = self.value(of, value)?;
            self.path.pop();
            out.insert(key, value);
        }
        Ok(Value::Object(out))
    }

    fn object(&mut self, ty: TypeId, object: &'a Object, map: Map<String, Value>) -> Result<Value, DecodeError> {
        let mut out = Map::new();
        for (key, value) in map {
            let Some(field) = object.field(&key) else {
                if object.preserve_unknown {
                    out.insert(key, value);
                } else {
                    self.unknown(&key);
                }
                continue;
            };
            if value.is_null() {
                continue;
            }
            self.context.push(Frame { owner: ty, field });
            self.path.push(Step::Key(key.clone()));
            let value = self.value(field.ty, value)?;
            self.path.pop();
            self.context.pop();
            if field.presence != Presence::OmitEmpty || !is_empty(&value) {
                out.insert(key, value);
            }
        }
        settle(self.schema, ty, &mut out);
        Ok(Value::Object(out))
    }

    fn time(&mut self, value: Value, canonical: fn(&str) -> Result<String, Error>) -> Result<Value, DecodeError> {
        match value {
            Value::Null => Ok(Value::Null),
            Value::String(text) => canonical(&text).map(Value::String).map_err(refused),
            other => Err(self.mismatch(&kind_of(&other), "string")),
        }
    }

    fn duration(&mut self, value: Value) -> Result<Value, DecodeError> {
        match value {
            Value::String(text) => duration::canonical(&text).map(Value::String).map_err(refused),
            Value::Null => Ok(Value::from("0s")),
            other => Err(self.mismatch(&kind_of(&other), "string")),
        }
    }

    fn int_or_string(&mut self, value: Value) -> Result<Value, DecodeError> {
        match value {
            Value::Null => Ok(Value::from(0)),
            Value::String(text) => Ok(Value::String(text)),
            Value::Number(n) if n.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) => Ok(Value::Number(n)),
            Value::Number(n) => Err(self.mismatch(&format!("number {n}"), "int32")),
            other => Err(self.mismatch(&kind_of(&other), "int32")),
        }
    }

    /// A type error with the place where it happened.
    fn mismatch(&self, found: &str, wanted: &str) -> DecodeError {
        let Some(last) = self.context.last().filter(|_| !self.restores) else {
            return DecodeError(format!("json: cannot unmarshal {found} into Go value of type {wanted}"));
        };
        let owner = &self.schema.get(last.owner).go;
        let owner = owner.rsplit_once('.').map_or(&**owner, |(_, name)| name);
        let mut fields = String::new();
        for frame in &self.context {
            for name in [&*frame.field.embedded, &*frame.field.name] {
                if !name.is_empty() {
                    fields.push('.');
                    fields.push_str(name);
                }
            }
        }
        DecodeError(format!("json: cannot unmarshal {found} into Go struct field {owner}{fields} of type {wanted}"))
    }

    fn save(&mut self, error: DecodeError) {
        self.saved.get_or_insert(error);
    }

    fn unknown(&mut self, key: &str) {
        if !self.report || self.strict.len() >= MAX_STRICT_ERRORS {
            return;
        }
        let mut path = String::new();
        for step in &self.path {
            match step {
                Step::Key(key) if path.is_empty() => path.push_str(key),
                Step::Key(key) => {
                    path.push('.');
                    path.push_str(key);
                }
                Step::Index(i) => path.push_str(&format!("[{i}]")),
            }
        }
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(key);
        self.strict.push(format!("unknown field {}", go::quote(&path)));
    }
}

fn refused(error: Error) -> DecodeError {
    DecodeError(error.to_string())
}

fn quantity(value: Value) -> Result<Value, DecodeError> {
    let text = match value {
        Value::Null => return Ok(Value::from("0")),
        Value::String(text) => text,
        other => other.to_string(),
    };
    match crate::quantity::Quantity::parse(text.trim()) {
        Ok(quantity) => Ok(Value::String(quantity.to_string())),
        Err(error) => Err(DecodeError(error.to_string())),
    }
}

/// Go writes a float that is a whole number without a point.
fn shortest(number: Number) -> Number {
    match number.as_f64() {
        Some(f) if number.is_f64() && f.fract() == 0.0 && f.abs() < 9e15 => Number::from(f as i64),
        _ => number,
    }
}

/// Where Go's base64 decoder gives up.
fn illegal_base64(text: &str) -> usize {
    let (mut digits, mut last) = (0usize, 0usize);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'\r' | b'\n' => continue,
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' => digits += 1,
            b'=' => {
                // Padding may only stand as the third and fourth digit, and nothing follows it.
                let quantum = digits % 4;
                if quantum < 2 {
                    return at;
                }
                let rest: Vec<(usize, u8)> =
                    text.bytes().enumerate().skip(at + 1).filter(|(_, b)| !matches!(b, b'\r' | b'\n')).collect();
                return match (quantum, rest.as_slice()) {
                    (2, []) => text.len(),
                    (2, [(_, b'='), (extra, _), ..]) | (3, [(extra, _), ..]) => *extra,
                    (2, [(at, other), ..]) if *other != b'=' => *at,
                    _ => last,
                };
            }
            _ => return at,
        }
        last = at;
    }
    // The input ended within a quantum: Go names the start of it.
    text.len() - digits % 4
}

/// What Go's decoder calls a JSON value.
fn kind_of(value: &Value) -> String {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
    .to_owned()
}

/// What Go calls a value that was decoded without a type.
fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

/// Why a value does not become one of this shape, in the words of Kubernetes' converter.
fn not_restored(shape: &Shape, found: &str, wanted: &str) -> String {
    let basic = match shape {
        Shape::List { .. } | Shape::Bytes => return format!("cannot restore slice from {found}"),
        Shape::Map { .. } => return format!("cannot restore map from {found}"),
        Shape::Object(_) => return format!("cannot restore struct from: {found}"),
        Shape::Bool => "bool",
        Shape::Int32 => "int32",
        Shape::Int64 => "int64",
        Shape::Double => "float64",
        _ => "string",
    };
    // What Go could convert, and is not meant to.
    let convertible = match found {
        "int64" => basic != "bool",
        "float64" => !matches!(basic, "bool" | "string"),
        _ => false,
    };
    if convertible { format!("cannot convert {found} to {wanted}") } else { format!("unrecognized type: {basic}") }
}
