//! The table of facts: its notation and how it becomes a schema.
//!
//! A type is a line, its fields are the indented lines below it:
//!
//! ```text
//! core.v1.ServicePort v1.ServicePort
//!  port 3 always int32 required
//!  protocol 2 empty v1.Protocol=string default="TCP" enum=SCTP,TCP,UDP
//! ```
//!
//! A type line is the name it is published under (without `io.k8s.api.`), what Go calls it, and flags (`atomic`). A field
//! line is name, protobuf number, [presence](trireme_machinery::schema::Presence), type and what else is known. A type is
//! `bool`, `int32`, …, `@name` for an object, `[]type` for a list, `{}type` for a map, `a|b` for one of two; `name=type`
//! says what Go calls it where that does not follow from the type. A `~` in an enumeration is a space. `in=Outer#2` tells that in Go and in protobuf
//! the field lies in a member `Outer` with number 2, which JSON does not show.

use std::collections::HashMap;

use serde_json::Value;
use trireme_machinery::schema::{Field, ListKind, Object, PatchStrategy, Presence, SchemaBuilder, Shape, Type, TypeId};

use crate::Error;

/// What nearly all names of types begin with.
const PREFIX: &str = "io.k8s.api.";

/// Reads the table.
pub(crate) fn parse(text: &str) -> Result<SchemaBuilder, Error> {
    let mut reader = Reader { builder: SchemaBuilder::default(), line: 0, scalars: HashMap::new() };
    let heads: Vec<(usize, &str)> =
        text.lines().enumerate().filter(|(_, l)| !l.is_empty() && !l.starts_with([' ', '#'])).collect();
    // All names first, so that a field may refer to a type that comes later.
    let mut ids = Vec::with_capacity(heads.len());
    for (line, head) in &heads {
        reader.line = line + 1;
        let mut words = head.split(' ');
        let (Some(name), Some(go)) = (words.next(), words.next()) else {
            return Err(reader.error("a type has a name and a Go name"));
        };
        ids.push((reader.builder.reserve(&full_name(name), go), words.any(|flag| flag == "atomic")));
    }
    let mut lines = text.lines().enumerate().filter(|(_, l)| !l.is_empty() && !l.starts_with('#')).peekable();
    for (id, atomic) in ids {
        lines.next();
        let mut fields = Vec::new();
        while let Some((line, field)) = lines.next_if(|(_, l)| l.starts_with(' ')) {
            reader.line = line + 1;
            fields.push(reader.field(field.trim_start())?);
        }
        let mut object = Object::new(fields);
        object.atomic = atomic;
        reader.builder.define(id, Shape::Object(object));
    }
    Ok(reader.builder)
}

/// The name a type is published under.
pub(crate) fn full_name(name: &str) -> String {
    if name.starts_with("io.") { name.to_owned() } else { format!("{PREFIX}{name}") }
}

struct Reader {
    builder: SchemaBuilder,
    line: usize,
    /// Types without a name, each made once.
    scalars: HashMap<(String, ListKind, bool), TypeId>,
}

impl Reader {
    fn error(&self, problem: &str) -> Error {
        Error::Facts { line: self.line, problem: problem.to_owned() }
    }

    fn field(&mut self, text: &str) -> Result<Field, Error> {
        let mut words = text.split(' ');
        let (Some(name), Some(number), Some(presence), Some(ty)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(self.error("a field has a name, a number, a presence and a type"));
        };
        let mut field = Field {
            name: name.into(),
            ty: TypeId(0),
            required: false,
            presence: match presence {
                "always" => Presence::Always,
                "null" => Presence::Null,
                "empty" => Presence::OmitEmpty,
                "nil" => Presence::OmitNil,
                _ => return Err(self.error("unknown presence")),
            },
            default: None,
            enum_values: Vec::new(),
            atomic: false,
            patch_strategy: PatchStrategy::default(),
            patch_merge_key: None,
            proto_number: number.parse().map_err(|_| self.error("not a number"))?,
            embedded: "".into(),
            proto_embedded: Vec::new(),
        };
        let mut list = ListKind::Atomic;
        for word in words {
            match word.split_once('=').unwrap_or((word, "")) {
                ("required", _) => field.required = true,
                ("atomic", _) => field.atomic = true,
                ("set", _) => list = ListKind::Set,
                ("map", keys) => list = ListKind::Map(keys.split(',').map(Into::into).collect()),
                ("patch", strategy) => field.patch_strategy = PatchStrategy::parse(strategy),
                ("key", key) => field.patch_merge_key = Some(key.into()),
                ("in", members) => {
                    let members: Vec<(&str, &str)> =
                        members.split('.').map(|m| m.split_once('#').unwrap_or((m, "0"))).collect();
                    field.embedded = members.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(".").into();
                    field.proto_embedded = members.iter().filter_map(|(_, number)| number.parse().ok()).collect();
                }
                ("enum", values) => field.enum_values = values.split(',').map(|v| v.replace('~', " ").into()).collect(),
                ("default", json) => {
                    let value: Value = serde_json::from_str(json).map_err(|_| self.error("a default is JSON"))?;
                    field.default = Some(Box::new(value));
                }
                _ => return Err(self.error("unknown word")),
            }
        }
        field.ty = self.ty(ty, list, field.atomic)?;
        Ok(field)
    }

    fn ty(&mut self, text: &str, list: ListKind, atomic: bool) -> Result<TypeId, Error> {
        if let Some(name) = text.strip_prefix('@') {
            return self.builder.schema().find(&full_name(name)).ok_or_else(|| self.error("unknown type"));
        }
        let key = (text.to_owned(), list, atomic);
        if let Some(id) = self.scalars.get(&key) {
            return Ok(*id);
        }
        let (text, list, atomic) = (text, key.1.clone(), key.2);
        let (go, body) = match text.split_once('=') {
            Some((go, body)) if !text.starts_with(['[', '{']) || go.ends_with(']') => (Some(go), body),
            _ => (None, text),
        };
        let (shape, named) = self.shape(body, list, atomic)?;
        // A map whose keys have a type of their own is named by it and by its values.
        let go = match go {
            Some(go) if go.ends_with(']') => format!("{go}{}", named.trim_start_matches("map[string]")),
            Some(go) => go.to_owned(),
            None => named,
        };
        let id = self.builder.add(Type { name: "".into(), go: go.into(), shape, defaults: None });
        self.scalars.insert(key, id);
        Ok(id)
    }

    /// A shape and what Go calls it.
    fn shape(&mut self, text: &str, list: ListKind, atomic: bool) -> Result<(Shape, String), Error> {
        if let Some(item) = text.strip_prefix("[]") {
            let of = self.ty(item, ListKind::Atomic, false)?;
            let go = format!("[]{}", self.builder.schema().get(of).go);
            return Ok((Shape::List { of, kind: list }, go));
        }
        if let Some(value) = text.strip_prefix("{}") {
            let of = self.ty(value, ListKind::Atomic, false)?;
            let go = format!("map[string]{}", self.builder.schema().get(of).go);
            return Ok((Shape::Map { of, atomic }, go));
        }
        if text.contains('|') {
            let types = text.split('|').map(|t| self.ty(t, ListKind::Atomic, false)).collect::<Result<_, _>>()?;
            return Ok((Shape::AnyOf(types), String::new()));
        }
        let (shape, go) = match text {
            "any" => (Shape::Any, "interface {}"),
            "bool" => (Shape::Bool, "bool"),
            "int32" => (Shape::Int32, "int32"),
            "int64" => (Shape::Int64, "int64"),
            "double" => (Shape::Double, "float64"),
            "string" => (Shape::String, "string"),
            "bytes" => (Shape::Bytes, "[]uint8"),
            "time" => (Shape::Time, "v1.Time"),
            "microtime" => (Shape::MicroTime, "v1.MicroTime"),
            "duration" => (Shape::Duration, "v1.Duration"),
            "quantity" => (Shape::Quantity, "resource.Quantity"),
            "intorstring" => (Shape::IntOrString, "intstr.IntOrString"),
            _ => return Err(self.error("unknown type")),
        };
        Ok((shape, go.to_owned()))
    }
}
