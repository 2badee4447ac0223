//! Objects and lists as bytes.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use trireme_kinds::Kind;
use trireme_machinery::codec;

use super::accept::{Form, Format, Shape};
use crate::pipeline::{ListAnswer, ObjectAnswer, ObjectBody, Stored, answer};
use crate::tables::{self, IncludeObject};

/// What an answer's form needs beside the objects.
#[derive(Debug, Clone)]
pub(super) struct Style {
    /// How it is written.
    pub(super) form: Form,
    /// What a Table's rows carry.
    pub(super) include: IncludeObject,
    /// The time that ages are counted from.
    pub(super) now: Timestamp,
}

/// One object.
pub(super) fn object(answer: &ObjectAnswer, style: &Style) -> Vec<u8> {
    match (&style.form.shape, &answer.kind) {
        (Shape::Object, _) => match (&answer.object, style.form.format, style.form.pretty) {
            (ObjectBody::Stored(stored), Format::Json, false) => {
                let mut out = Vec::with_capacity(stored.body.len() + 80);
                stored.encode_into(&mut out);
                out.push(b'\n');
                out
            }
            (body, _, _) => value(&body.value(), &style.form),
        },
        (Shape::Table(version), Some(kind)) => {
            let object = answer.object.value();
            let mut table = tables::render(kind, std::slice::from_ref(&object), style.include, version, style.now);
            table["metadata"] = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
            value(&table, &style.form)
        }
        (Shape::Metadata(version), _) => value(&tables::partial(&answer.object.value(), version), &style.form),
        (Shape::Table(_), None) => value(&answer.object.value(), &style.form),
    }
}

/// A list.
pub(super) fn list(answer: &ListAnswer, style: &Style) -> Vec<u8> {
    let metadata = list_metadata(answer);
    let plain = style.form.format == Format::Json && !style.form.pretty;
    match style.form.shape {
        Shape::Object if plain => plain_list(answer, &metadata),
        Shape::Object => {
            let items: Vec<Value> = answer.items.iter().map(|item| list_item(&answer.kind, item)).collect();
            let list = json!({
                "kind": answer.kind.list_kind,
                "apiVersion": answer.kind.api_version(),
                "metadata": metadata,
                "items": items,
            });
            value(&list, &style.form)
        }
        Shape::Table(version) => {
            let items = converted(answer);
            let mut table = tables::render(&answer.kind, &items, style.include, version, style.now);
            table["metadata"] = Value::Object(metadata);
            value(&table, &style.form)
        }
        Shape::Metadata(version) => {
            let mut list = tables::partial_list(&converted(answer), version);
            list["metadata"] = Value::Object(metadata);
            value(&list, &style.form)
        }
    }
}

/// Any value.
pub(super) fn value(value: &Value, form: &Form) -> Vec<u8> {
    match (form.format, form.pretty) {
        (Format::Json, false) => {
            let mut out = value.to_string().into_bytes();
            out.push(b'\n');
            out
        }
        (Format::Json, true) => {
            let mut out = pretty(value).into_bytes();
            out.push(b'\n');
            out
        }
        (Format::Yaml, _) => codec::yaml::write(value).into_bytes(),
    }
}

/// For people: with line breaks, and with what an object is before what it says.
fn pretty(value: &Value) -> String {
    let lines = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_default();
    let Value::Object(map) = value else { return lines(value) };
    const FIRST: [&str; 3] = ["kind", "apiVersion", "metadata"];
    let first = FIRST.iter().filter_map(|key| map.get_key_value(*key));
    let rest = map.iter().filter(|(key, _)| !FIRST.contains(&key.as_str()));
    let entries: Vec<String> = first
        .chain(rest)
        .map(|(key, value)| format!("  {}: {}", Value::from(key.as_str()), lines(value).replace('\n', "\n  ")))
        .collect();
    if entries.is_empty() { "{}".to_owned() } else { format!("{{\n{}\n}}", entries.join(",\n")) }
}

/// The object of a watch event.
pub(super) fn event_object(kind: &Arc<Kind>, stored: &Arc<Stored>, style: &Style, first: bool) -> Vec<u8> {
    let answer = ObjectAnswer { code: 200, kind: Some(kind.clone()), object: body_of(kind, stored) };
    match style.form.shape {
        Shape::Table(version) => {
            let object = answer.object.value();
            let mut table = tables::render(kind, std::slice::from_ref(&object), style.include, version, style.now);
            table["metadata"] = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
            if !first {
                table["columnDefinitions"] = Value::Null;
            }
            table.to_string().into_bytes()
        }
        _ => {
            let mut out = object(
                &answer,
                &Style { form: Form { format: Format::Json, pretty: false, ..style.form.clone() }, ..style.clone() },
            );
            out.pop();
            out
        }
    }
}

fn body_of(kind: &Kind, stored: &Arc<Stored>) -> ObjectBody {
    answer(kind, stored.clone())
}

/// A list's items carry no kind of their own, unless a CustomResourceDefinition made the kind.
fn list_item(kind: &Kind, stored: &Arc<Stored>) -> Value {
    let mut item = body_of(kind, stored).value();
    if let Some(map) = item.as_object_mut() {
        map.remove("kind");
        map.remove("apiVersion");
    }
    item
}

fn converted(answer: &ListAnswer) -> Vec<Value> {
    answer.items.iter().map(|item| body_of(&answer.kind, item).value()).collect()
}

/// A list out of what the cache has encoded.
fn plain_list(answer: &ListAnswer, metadata: &Map<String, Value>) -> Vec<u8> {
    let size: usize = answer.items.iter().map(|item| item.body.len() + 1).sum();
    let mut out = Vec::with_capacity(size + 256);
    out.extend_from_slice(b"{\"kind\":\"");
    out.extend_from_slice(answer.kind.list_kind.as_bytes());
    out.extend_from_slice(b"\",\"apiVersion\":\"");
    out.extend_from_slice(answer.kind.api_version().as_bytes());
    out.extend_from_slice(b"\",\"metadata\":");
    out.extend_from_slice(Value::Object(metadata.clone()).to_string().as_bytes());
    out.extend_from_slice(b",\"items\":[");
    let api_version = answer.kind.api_version();
    for (index, item) in answer.items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        if item.type_meta.api_version == api_version {
            out.extend_from_slice(&item.body);
        } else {
            out.extend_from_slice(list_item(&answer.kind, item).to_string().as_bytes());
        }
    }
    out.extend_from_slice(b"]}\n");
    out
}

fn list_metadata(answer: &ListAnswer) -> Map<String, Value> {
    let mut metadata = Map::new();
    metadata.insert("resourceVersion".to_owned(), Value::String(answer.revision.to_string()));
    if !answer.continue_token.is_empty() {
        metadata.insert("continue".to_owned(), Value::String(answer.continue_token.clone()));
    }
    if let Some(remaining) = answer.remaining {
        metadata.insert("remainingItemCount".to_owned(), Value::from(remaining));
    }
    metadata
}
