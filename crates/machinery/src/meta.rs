//! Object metadata, read and written in place.
//!
//! Readers take what is missing for empty; writers remove a field rather than leave it empty, as Kubernetes' JSON does.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::gvk::GroupVersionKind;
use crate::{time, tree};

/// The finalizer of a foreground deletion.
pub const FOREGROUND_DELETION: &str = "foregroundDeletion";
/// The finalizer of a deletion that leaves dependents behind.
pub const ORPHAN: &str = "orphan";

/// One entry of `metadata.ownerReferences`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnerReference<'a> {
    /// The owner's `apiVersion`.
    pub api_version: &'a str,
    /// The owner's kind.
    pub kind: &'a str,
    /// The owner's name.
    pub name: &'a str,
    /// The owner's uid.
    pub uid: &'a str,
    /// Whether the owner is the controller of the object.
    pub controller: bool,
    /// Whether the owner's foreground deletion waits for the object.
    pub block_owner_deletion: bool,
}

// === readers ===

/// `apiVersion`.
pub fn api_version(object: &Value) -> &str {
    tree::text(object, &["apiVersion"])
}

/// `kind`.
pub fn kind(object: &Value) -> &str {
    tree::text(object, &["kind"])
}

/// `apiVersion` and `kind` as group, version and kind.
pub fn gvk(object: &Value) -> GroupVersionKind {
    GroupVersionKind::from_api_version(api_version(object), kind(object))
}

/// `metadata.name`.
pub fn name(object: &Value) -> &str {
    field(object, "name")
}

/// `metadata.generateName`.
pub fn generate_name(object: &Value) -> &str {
    field(object, "generateName")
}

/// `metadata.namespace`.
pub fn namespace(object: &Value) -> &str {
    field(object, "namespace")
}

/// `metadata.uid`.
pub fn uid(object: &Value) -> &str {
    field(object, "uid")
}

/// `metadata.resourceVersion`.
pub fn resource_version(object: &Value) -> &str {
    field(object, "resourceVersion")
}

/// `metadata.resourceVersion` as the store's revision; 0 where there is none.
pub fn revision(object: &Value) -> u64 {
    resource_version(object).parse().unwrap_or_default()
}

/// `metadata.generation`.
pub fn generation(object: &Value) -> i64 {
    tree::integer(object, &["metadata", "generation"]).unwrap_or_default()
}

/// `metadata.labels`.
pub fn labels(object: &Value) -> Option<&Map<String, Value>> {
    tree::map(object, &["metadata", "labels"])
}

/// One label.
pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    labels(object)?.get(key)?.as_str()
}

/// `metadata.annotations`.
pub fn annotations(object: &Value) -> Option<&Map<String, Value>> {
    tree::map(object, &["metadata", "annotations"])
}

/// One annotation.
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    annotations(object)?.get(key)?.as_str()
}

/// `metadata.finalizers`.
pub fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    tree::list(object, &["metadata", "finalizers"]).iter().filter_map(Value::as_str)
}

/// Whether a finalizer holds the object.
pub fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    finalizers(object).any(|held| held == finalizer)
}

/// `metadata.ownerReferences`.
pub fn owner_references(object: &Value) -> impl Iterator<Item = OwnerReference<'_>> {
    tree::list(object, &["metadata", "ownerReferences"]).iter().map(|reference| OwnerReference {
        api_version: tree::text(reference, &["apiVersion"]),
        kind: tree::text(reference, &["kind"]),
        name: tree::text(reference, &["name"]),
        uid: tree::text(reference, &["uid"]),
        controller: tree::boolean(reference, &["controller"]).unwrap_or_default(),
        block_owner_deletion: tree::boolean(reference, &["blockOwnerDeletion"]).unwrap_or_default(),
    })
}

/// The owner that is the object's controller.
pub fn controller(object: &Value) -> Option<OwnerReference<'_>> {
    owner_references(object).find(|owner| owner.controller)
}

/// `metadata.creationTimestamp`.
pub fn creation_timestamp(object: &Value) -> Option<Timestamp> {
    timestamp(object, "creationTimestamp")
}

/// `metadata.deletionTimestamp`: when the object may go, set once its deletion is asked for.
pub fn deletion_timestamp(object: &Value) -> Option<Timestamp> {
    timestamp(object, "deletionTimestamp")
}

/// Whether the object's deletion is asked for.
pub fn is_deleting(object: &Value) -> bool {
    tree::get(object, &["metadata", "deletionTimestamp"]).is_some_and(|at| !at.is_null())
}

/// `metadata.deletionGracePeriodSeconds`.
pub fn deletion_grace_period_seconds(object: &Value) -> Option<i64> {
    tree::integer(object, &["metadata", "deletionGracePeriodSeconds"])
}

/// `metadata.managedFields`.
pub fn managed_fields(object: &Value) -> &[Value] {
    tree::list(object, &["metadata", "managedFields"])
}

fn field<'a>(object: &'a Value, name: &str) -> &'a str {
    tree::text(object, &["metadata", name])
}

fn timestamp(object: &Value, name: &str) -> Option<Timestamp> {
    time::parse(field(object, name)).ok()
}

// === writers ===

/// Sets `apiVersion` and `kind`.
pub fn set_gvk(object: &mut Value, gvk: &GroupVersionKind) {
    tree::set(object, &["apiVersion"], gvk.api_version());
    tree::set(object, &["kind"], gvk.kind.clone());
}

/// Sets `metadata.name`.
pub fn set_name(object: &mut Value, name: &str) {
    set_text(object, "name", name);
}

/// Sets `metadata.namespace`.
pub fn set_namespace(object: &mut Value, namespace: &str) {
    set_text(object, "namespace", namespace);
}

/// Sets `metadata.uid`.
pub fn set_uid(object: &mut Value, uid: &str) {
    set_text(object, "uid", uid);
}

/// Sets `metadata.resourceVersion`; empty takes it out.
pub fn set_resource_version(object: &mut Value, version: &str) {
    set_text(object, "resourceVersion", version);
}

/// Sets `metadata.resourceVersion` to the store's revision; 0 takes it out.
pub fn set_revision(object: &mut Value, revision: u64) {
    if revision == 0 {
        set_text(object, "resourceVersion", "");
    } else {
        set_text(object, "resourceVersion", &revision.to_string());
    }
}

/// Sets `metadata.generation`; 0 takes it out.
pub fn set_generation(object: &mut Value, generation: i64) {
    set_or_remove(object, "generation", (generation != 0).then(|| generation.into()));
}

/// Sets `metadata.creationTimestamp`.
pub fn set_creation_timestamp(object: &mut Value, at: Timestamp) {
    set_text(object, "creationTimestamp", &time::format(at));
}

/// Sets `metadata.deletionTimestamp`, or takes it out.
pub fn set_deletion_timestamp(object: &mut Value, at: Option<Timestamp>) {
    set_or_remove(object, "deletionTimestamp", at.map(|at| time::format(at).into()));
}

/// Sets `metadata.deletionGracePeriodSeconds`, or takes it out.
pub fn set_deletion_grace_period_seconds(object: &mut Value, seconds: Option<i64>) {
    set_or_remove(object, "deletionGracePeriodSeconds", seconds.map(Value::from));
}

/// Sets one label.
pub fn set_label(object: &mut Value, key: &str, value: &str) {
    tree::ensure_map(object, &["metadata", "labels"]).insert(key.to_owned(), value.into());
}

/// Sets one annotation.
pub fn set_annotation(object: &mut Value, key: &str, value: &str) {
    tree::ensure_map(object, &["metadata", "annotations"]).insert(key.to_owned(), value.into());
}

/// Takes one annotation out.
pub fn remove_annotation(object: &mut Value, key: &str) -> Option<Value> {
    let removed = tree::remove(object, &["metadata", "annotations", key]);
    if annotations(object).is_some_and(Map::is_empty) {
        tree::remove(object, &["metadata", "annotations"]);
    }
    removed
}

/// Sets `metadata.finalizers`; none takes the list out.
pub fn set_finalizers<'a>(object: &mut Value, finalizers: impl IntoIterator<Item = &'a str>) {
    let list: Vec<Value> = finalizers.into_iter().map(Value::from).collect();
    set_or_remove(object, "finalizers", (!list.is_empty()).then_some(Value::Array(list)));
}

/// Adds a finalizer unless it is there.
pub fn add_finalizer(object: &mut Value, finalizer: &str) {
    if !has_finalizer(object, finalizer) {
        let entry = tree::ensure_map(object, &["metadata"]).entry("finalizers").or_insert_with(|| json!([]));
        match entry {
            Value::Array(list) => list.push(finalizer.into()),
            other => *other = json!([finalizer]),
        }
    }
}

/// Takes a finalizer out; whether it was there.
pub fn remove_finalizer(object: &mut Value, finalizer: &str) -> bool {
    let left: Vec<String> = finalizers(object).filter(|held| *held != finalizer).map(str::to_owned).collect();
    let held = left.len() != finalizers(object).count();
    if held {
        set_finalizers(object, left.iter().map(String::as_str));
    }
    held
}

/// Sets `metadata.managedFields`; none takes the list out.
pub fn set_managed_fields(object: &mut Value, entries: Vec<Value>) {
    set_or_remove(object, "managedFields", (!entries.is_empty()).then_some(Value::Array(entries)));
}

fn set_text(object: &mut Value, name: &str, text: &str) {
    set_or_remove(object, name, (!text.is_empty()).then(|| text.into()));
}

fn set_or_remove(object: &mut Value, name: &str, value: Option<Value>) {
    let metadata = tree::ensure_map(object, &["metadata"]);
    match value {
        Some(value) => metadata.insert(name.to_owned(), value),
        None => metadata.remove(name),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_read_where_it_is_and_empty_where_not() {
        let object = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": "a", "resourceVersion": "12", "labels": {"x": "y"}, "finalizers": ["f"],
                         "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "u",
                                              "controller": true}],
                         "deletionTimestamp": "2026-01-02T03:04:05Z"}});
        assert_eq!(gvk(&object), GroupVersionKind::new("apps", "v1", "ReplicaSet"));
        assert_eq!((name(&object), namespace(&object), revision(&object)), ("a", "", 12));
        assert_eq!(label(&object, "x"), Some("y"));
        assert_eq!(controller(&object).map(|owner| owner.uid), Some("u"));
        assert!(is_deleting(&object));
        assert_eq!(deletion_timestamp(&object).map(time::format).as_deref(), Some("2026-01-02T03:04:05Z"));
        assert_eq!(name(&json!({})), "");
    }

    #[test]
    fn writers_leave_nothing_empty_behind() {
        let mut object = json!({});
        set_name(&mut object, "a");
        set_revision(&mut object, 5);
        add_finalizer(&mut object, "f");
        add_finalizer(&mut object, "f");
        set_annotation(&mut object, "k", "v");
        assert_eq!(
            object,
            json!({"metadata": {"name": "a", "resourceVersion": "5", "finalizers": ["f"], "annotations": {"k": "v"}}})
        );
        assert!(remove_finalizer(&mut object, "f"));
        assert!(!remove_finalizer(&mut object, "f"));
        set_revision(&mut object, 0);
        assert_eq!(remove_annotation(&mut object, "k"), Some("v".into()));
        assert_eq!(object, json!({"metadata": {"name": "a"}}));
    }
}
