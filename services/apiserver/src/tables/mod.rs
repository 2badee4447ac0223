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
    let mut metadata = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
    if object["kind"] == "DaemonSet" {
        // It is a field that upstream shows as an annotation of the object, and of nothing less.
        remove_annotation(&mut metadata, "deprecated.daemonset.template.generation");
    }
    out.insert("metadata".into(), metadata);
    Value::Object(out)
}

fn remove_annotation(metadata: &mut Value, key: &str) {
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return };
    annotations.remove(key);
    if annotations.is_empty()
        && let Some(metadata) = metadata.as_object_mut()
    {
        metadata.remove("annotations");
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_sets_metadata_is_without_its_old_counter() {
        let set = |annotations: Value| json!({"kind": "DaemonSet", "metadata": {"annotations": annotations}});
        let counter = "deprecated.daemonset.template.generation";
        assert_eq!(partial(&set(json!({counter: "1"})), "v1")["metadata"], json!({}));
        assert_eq!(
            partial(&set(json!({counter: "1", "a": "b"})), "v1")["metadata"],
            json!({"annotations": {"a": "b"}})
        );
    }
}
