//! What is wrong with metadata, whatever the kind.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::gvk::GroupVersionKind;
use trireme_machinery::names;
use trireme_machinery::path::Path;

use crate::Kind;

/// All annotations of an object together may be this long.
const MAX_ANNOTATIONS_BYTES: usize = 256 * 1024;
const MAX_FIELD_MANAGER: usize = 128;
const MAX_SUBRESOURCE_NAME: usize = 256;
const IMMUTABLE: &str = "field is immutable";

/// `metadata.generation`, 0 if absent.
pub(crate) fn generation(obj: &Value) -> i64 {
    obj["metadata"]["generation"].as_i64().unwrap_or_default()
}

/// Sets `metadata.generation`; 0 removes it.
pub(crate) fn set_generation(obj: &mut Value, generation: i64) {
    if let Some(metadata) = obj.get_mut("metadata").and_then(Value::as_object_mut) {
        if generation == 0 {
            metadata.remove("generation");
        } else {
            metadata.insert("generation".to_owned(), Value::from(generation));
        }
    }
}

/// What is wrong with the metadata of a new object. Its name has been generated.
pub(crate) fn validate(kind: &Kind, obj: &Value) -> ErrorList {
    let (metadata, at) = (&obj["metadata"], Path::new("metadata"));
    let mut errors = validate_with(metadata, kind.namespaced, |name, prefix| kind.rules.names.check(name, prefix), &at);
    errors.extend(standard_finalizers(kind, metadata, &at));
    errors
}

/// What is wrong with metadata that takes names of some rule.
pub(crate) fn validate_with(
    metadata: &Value,
    namespaced: bool,
    name_rule: impl Fn(&str, bool) -> Vec<String>,
    at: &Path,
) -> ErrorList {
    let mut errors = ErrorList::new();
    let text = |key: &str| metadata[key].as_str().unwrap_or_default();

    let generate_name = text("generateName");
    if !generate_name.is_empty() {
        errors.extend(
            name_rule(generate_name, true)
                .into_iter()
                .map(|m| field::invalid(&at.child("generateName"), generate_name, m)),
        );
    }
    let name = text("name");
    if name.is_empty() {
        errors.push(field::required(&at.child("name"), "name or generateName is required"));
    } else {
        errors.extend(name_rule(name, false).into_iter().map(|m| field::invalid(&at.child("name"), name, m)));
    }
    let namespace = text("namespace");
    if !namespaced {
        if !namespace.is_empty() {
            errors.push(field::forbidden(&at.child("namespace"), "not allowed on this type"));
        }
    } else if namespace.is_empty() {
        errors.push(field::required(&at.child("namespace"), ""));
    } else {
        errors.extend(
            names::is_dns1123_label(namespace)
                .into_iter()
                .map(|m| field::invalid(&at.child("namespace"), namespace, m)),
        );
    }
    errors.extend(common(metadata, at));
    errors.extend(finalizers(metadata, &at.child("finalizers")));
    errors
}

/// What is wrong with changed metadata.
pub(crate) fn validate_update(kind: &Kind, new: &Value, old: &Value) -> ErrorList {
    let at = Path::new("metadata");
    let (new, old) = (&new["metadata"], &old["metadata"]);
    let mut errors = ErrorList::new();

    if !old["deletionTimestamp"].is_null() {
        let had: Vec<&str> = strings(&old["finalizers"]);
        let mut extra: Vec<&str> = strings(&new["finalizers"]).into_iter().filter(|f| !had.contains(f)).collect();
        extra.sort_unstable();
        extra.dedup();
        if !extra.is_empty() {
            let list = extra.iter().map(|f| format!("{f:?}")).collect::<Vec<_>>().join(", ");
            let words = "no new finalizers can be added if the object is being deleted, found new finalizers";
            errors.push(field::forbidden(&at.child("finalizers"), format!("{words} []string{{{list}}}")));
        }
    }
    if new["resourceVersion"].as_str().unwrap_or_default().is_empty() {
        errors.push(field::invalid(&at.child("resourceVersion"), "", "must be specified for an update"));
    }
    let (new_generation, old_generation) =
        (new["generation"].as_i64().unwrap_or_default(), old["generation"].as_i64().unwrap_or_default());
    if new_generation < old_generation {
        errors.push(field::invalid(&at.child("generation"), &new_generation, "must not be decremented"));
    }
    for key in ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if new[key] != old[key] {
            let empty = if matches!(key, "name" | "namespace" | "uid") && new[key].is_null() {
                Value::from("")
            } else {
                new[key].clone()
            };
            errors.push(field::invalid(&at.child(key), &empty, IMMUTABLE));
        }
    }
    errors.extend(common(new, &at));
    errors.extend(finalizers(new, &at.child("finalizers")));
    errors.extend(standard_finalizers(kind, new, &at));
    errors
}

/// What creation and update check alike.
fn common(metadata: &Value, at: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let generation = metadata["generation"].as_i64().unwrap_or_default();
    if generation < 0 {
        errors.push(field::invalid(&at.child("generation"), &generation, "must be greater than or equal to 0"));
    }
    errors.extend(labels(&metadata["labels"], &at.child("labels")));
    errors.extend(annotations(&metadata["annotations"], &at.child("annotations")));
    errors.extend(owner_references(&metadata["ownerReferences"], &at.child("ownerReferences")));
    errors.extend(managed_fields(&metadata["managedFields"], &at.child("managedFields")));
    errors
}

/// What is wrong with labels.
pub(crate) fn labels(labels: &Value, at: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    for (key, value) in pairs(labels) {
        errors.extend(names::is_qualified_name(key).into_iter().map(|m| field::invalid(at, key, m)));
        errors.extend(names::is_label_value(value).into_iter().map(|m| field::invalid(at, value, m)));
    }
    errors
}

/// What is wrong with annotations.
pub(crate) fn annotations(annotations: &Value, at: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut size = 0;
    for (key, value) in pairs(annotations) {
        size += key.len() + value.len();
        errors.extend(names::is_qualified_name(&key.to_lowercase()).into_iter().map(|m| field::invalid(at, key, m)));
    }
    if size > MAX_ANNOTATIONS_BYTES {
        errors.push(field::too_long(at, MAX_ANNOTATIONS_BYTES));
    }
    errors
}

fn owner_references(references: &Value, at: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut controller: Option<String> = None;
    for (i, reference) in references.as_array().into_iter().flatten().enumerate() {
        let here = at.index(i);
        let text = |key: &str| reference[key].as_str().unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let well_formed = api_version.matches('/').count() < 2 && api_version != "/" && !api_version.ends_with('/');
        if api_version.is_empty() {
            errors.push(field::required(&here.child("apiVersion"), "must not be empty"));
        } else if !well_formed {
            errors.push(field::invalid(
                &here.child("apiVersion"),
                api_version,
                "must be <group>/<version> or <version>",
            ));
        }
        for key in ["kind", "name", "uid"] {
            if text(key).is_empty() {
                errors.push(field::required(&here.child(key), "must not be empty"));
            }
        }
        if api_version == "v1" && kind == "Event" {
            let gvk = GroupVersionKind::from_api_version(api_version, kind);
            errors.push(field::invalid(
                &here,
                &go_owner(reference),
                format!("{gvk} is disallowed from being an owner"),
            ));
        }
        if reference["controller"] == true {
            let name = format!("{kind}/{}", text("name"));
            match &controller {
                Some(first) => errors.push(field::invalid(
                    at,
                    references,
                    format!("Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"),
                )),
                None => controller = Some(name),
            }
        }
    }
    errors
}

/// An owner reference with what Go encodes always.
fn go_owner(reference: &Value) -> Value {
    let mut map: Map<String, Value> =
        ["apiVersion", "kind", "name", "uid"].into_iter().map(|k| (k.to_owned(), Value::from(""))).collect();
    map.extend(reference.as_object().cloned().unwrap_or_default());
    Value::Object(map)
}

fn finalizers(metadata: &Value, at: &Path) -> ErrorList {
    let list = strings(&metadata["finalizers"]);
    let mut errors: ErrorList =
        list.iter().flat_map(|f| names::is_qualified_name(f).into_iter().map(|m| field::invalid(at, *f, m))).collect();
    if list.contains(&"orphan") && list.contains(&"foregroundDeletion") {
        errors.push(field::invalid(at, &list, "finalizer orphan and foregroundDeletion cannot be both set"));
    }
    errors
}

/// What is wrong with the name of a finalizer of a built-in kind: it is one of Kubernetes' own, or belongs to a domain.
pub(crate) fn finalizer(name: &str, at: &Path) -> ErrorList {
    let mut errors: ErrorList =
        names::is_qualified_name(name).into_iter().map(|m| field::invalid(at, name, m)).collect();
    errors.extend(standard_finalizer(name, at));
    errors
}

fn standard_finalizer(name: &str, at: &Path) -> Option<field::Error> {
    let fine = name.contains('/') || matches!(name, "kubernetes" | "orphan" | "foregroundDeletion");
    (!fine).then(|| field::invalid(at, name, "name is neither a standard finalizer name nor is it fully qualified"))
}

/// The finalizers of a built-in kind.
fn standard_finalizers(kind: &Kind, metadata: &Value, at: &Path) -> ErrorList {
    if !kind.rules.standard_finalizers {
        return ErrorList::new();
    }
    let list = strings(&metadata["finalizers"]);
    list.into_iter().enumerate().filter_map(|(i, f)| standard_finalizer(f, &at.child("finalizers").index(i))).collect()
}

/// Leaves of equal errors the first.
pub(crate) fn once(errors: ErrorList) -> ErrorList {
    let mut out = ErrorList::new();
    for error in errors {
        if !out.contains(&error) {
            out.push(error);
        }
    }
    out
}

fn managed_fields(entries: &Value, at: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    for (i, entry) in entries.as_array().into_iter().flatten().enumerate() {
        let here = at.index(i);
        let text = |key: &str| entry[key].as_str().unwrap_or_default();
        match text("operation") {
            "" => errors.push(field::required(&here.child("operation"), "must not be empty")),
            "Apply" | "Update" => {}
            other => errors.push(field::not_supported(&here.child("operation"), &other, ["Apply", "Update"])),
        }
        if !matches!(text("fieldsType"), "" | "FieldsV1") {
            errors.push(field::invalid(&here.child("fieldsType"), text("fieldsType"), "must be `FieldsV1`"));
        }
        errors.extend(field_manager(text("manager"), &here.child("manager")));
        if text("subresource").len() > MAX_SUBRESOURCE_NAME {
            errors.push(field::too_long(&here.child("subresource"), MAX_SUBRESOURCE_NAME));
        }
    }
    errors
}

/// What is wrong with the name of a field manager.
pub fn field_manager(name: &str, at: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if name.len() > MAX_FIELD_MANAGER {
        errors.push(field::too_long(at, MAX_FIELD_MANAGER));
    }
    if let Some((i, c)) = name.char_indices().find(|(_, c)| c.is_control()) {
        errors.push(field::invalid(at, name, format!("invalid character U+{:04X} (at position {i})", u32::from(c))));
    }
    errors
}

fn strings(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The pairs of a map of texts, in the order of their keys.
fn pairs(map: &Value) -> BTreeMap<&str, &str> {
    map.as_object().into_iter().flatten().map(|(k, v)| (k.as_str(), v.as_str().unwrap_or_default())).collect()
}
