//! Objects as rows, and objects as metadata alone: what `Accept: …;as=Table` and `;as=PartialObjectMetadata` ask for.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use trireme_kinds::{Column, Kind};
use trireme_machinery::status::Status;

use crate::describe::describe;

/// What each row carries beside its cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// The object's metadata.
    #[default]
    Metadata,
    /// The whole object.
    Object,
}

impl IncludeObject {
    /// Reads the query parameter `includeObject`.
    pub fn parse(value: Option<&str>) -> Result<Self, Status> {
        match value {
            None | Some("" | "Metadata") => Ok(Self::Metadata),
            Some("None") => Ok(Self::None),
            Some("Object") => Ok(Self::Object),
            Some(other) => Err(Status::bad_request(format!("unrecognized includeObject value: {other:?}"))),
        }
    }
}

/// A Table of `objects` in `version` of meta.k8s.io (`v1` or `v1beta1`), without list metadata.
#[must_use]
pub fn render(kind: &Kind, objects: &[Value], include: IncludeObject, version: &str, now: Timestamp) -> Value {
    json!({
        "kind": "Table",
        "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": {},
        "columnDefinitions": columns(kind),
        "rows": objects.iter().map(|object| row(kind, object, include, version, now)).collect::<Vec<_>>(),
    })
}

/// The column definitions of a kind.
#[must_use]
pub fn columns(kind: &Kind) -> Vec<Value> {
    kind.hooks.columns().iter().map(column).collect()
}

fn column(column: &Column) -> Value {
    let of_field = column.doc.as_ref().filter(|_| column.description.is_empty());
    let described = of_field.and_then(|(type_name, field)| describe(type_name, Some(field)));
    json!({
        "name": column.name,
        "type": column.ty,
        "format": column.format,
        "description": described.as_deref().unwrap_or(&column.description),
        "priority": column.priority,
    })
}

/// One row.
#[must_use]
pub fn row(kind: &Kind, object: &Value, include: IncludeObject, version: &str, now: Timestamp) -> Value {
    let carried = match include {
        IncludeObject::None => Value::Null,
        IncludeObject::Metadata => partial(object, version),
        IncludeObject::Object => object.clone(),
    };
    json!({"cells": kind.cells(object, now), "object": carried})
}

/// The object's metadata as a PartialObjectMetadata.
#[must_use]
pub fn partial(object: &Value, version: &str) -> Value {
    let mut out = Map::new();
    out.insert("kind".into(), json!("PartialObjectMetadata"));
    out.insert("apiVersion".into(), json!(format!("meta.k8s.io/{version}")));
    out.insert("metadata".into(), object.get("metadata").cloned().unwrap_or_else(|| json!({})));
    Value::Object(out)
}

/// A PartialObjectMetadataList of `objects`, without list metadata.
#[must_use]
pub fn partial_list(objects: &[Value], version: &str) -> Value {
    json!({
        "kind": "PartialObjectMetadataList",
        "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": {},
        "items": objects.iter().map(|object| partial(object, version)).collect::<Vec<_>>(),
    })
}
