//! PersistentVolumeClaim (v1).

use crate::check::{Node, immutable};
use crate::core::pod_spec;
use serde_json::{Value, json};
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::meta;

use crate::cells;
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::table::{AGE, NAME, TableColumn, column, field, wide, words};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
        .short(&["pvc"])
        .status()
        .hooks(PersistentVolumeClaim)
}

#[derive(Debug)]
struct PersistentVolumeClaim;

impl Hooks for PersistentVolumeClaim {
    fn table(&self) -> &'static [TableColumn] {
        TABLE
    }

    fn prepare_create(&self, claim: &mut Value, _: &Context<'_>) {
        // An empty status is defaulted when it is read again.
        claim["status"] = json!({"phase": "Pending"});
        known_sources(claim, None);
        data_sources(claim);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, _: &Context<'_>) {
        known_sources(new, Some(old));
        data_sources(new);
    }

    fn validate(&self, claim: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        pod_spec::claim_spec(&Node::of(claim, "spec"), &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value, ctx: &Context<'_>) -> ErrorList {
        let mut errors = self.validate(new, ctx);
        update(new, old, &mut errors);
        errors
    }
}

/// Drops of a claim that had no source one that cannot be meant: another namespace's, or, by the older of the two
/// fields, one that is neither a claim nor a snapshot.
fn known_sources(claim: &mut Value, old: Option<&Value>) {
    let had = |key: &str| old.is_some_and(|old| !old["spec"][key].is_null());
    let Some(spec) = claim["spec"].as_object_mut() else { return };
    let is = |source: &Value, kind: &str, group: &str| {
        cells::str(source, "kind") == kind && cells::str(source, "apiGroup") == group
    };
    let source = spec.get("dataSource").cloned().unwrap_or_default();
    let reference = spec.get("dataSourceRef").cloned().unwrap_or_default();
    if !cells::str(&reference, "namespace").is_empty() && !had("dataSourceRef") {
        spec.remove("dataSourceRef");
    }
    if had("dataSource") || had("dataSourceRef") || spec.contains_key("dataSourceRef") {
        return;
    }
    if !is(&source, "PersistentVolumeClaim", "") && !is(&source, "VolumeSnapshot", "snapshot.storage.k8s.io") {
        spec.remove("dataSource");
    }
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Status", "string", field("core.v1.PersistentVolumeClaimStatus", "phase"), |o, _| {
        if meta::is_deleting(o) { "Terminating".into() } else { cells::text(o, "status.phase") }
    }),
    column("Volume", "string", field("core.v1.PersistentVolumeClaimSpec", "volumeName"), |o, _| {
        cells::text(o, "spec.volumeName")
    }),
    column("Capacity", "string", field("core.v1.PersistentVolumeClaimStatus", "capacity"), |o, _| capacity(o).into()),
    column("Access Modes", "string", field("core.v1.PersistentVolumeClaimStatus", "accessModes"), |o, _| {
        if bound(o) { cells::access_modes(o, "status.accessModes") } else { "".into() }
    }),
    column("StorageClass", "string", words("StorageClass of the pvc"), |o, _| storage_class(o).into()),
    column("VolumeAttributesClass", "string", words("VolumeAttributesClass of the pvc"), |o, _| {
        cells::text_or(o, "spec.volumeAttributesClassName", "<unset>")
    }),
    AGE,
    wide("VolumeMode", "string", field("core.v1.PersistentVolumeClaimSpec", "volumeMode"), |o, _| {
        cells::text_or(o, "spec.volumeMode", "<unset>")
    }),
];

fn bound(claim: &Value) -> bool {
    !cells::str(claim, "spec.volumeName").is_empty()
}

fn capacity(claim: &Value) -> String {
    if bound(claim) { cells::quantity(&cells::at(claim, "status.capacity")["storage"]) } else { String::new() }
}

fn storage_class(claim: &Value) -> String {
    let old = meta::annotation(claim, "volume.beta.kubernetes.io/storage-class");
    old.unwrap_or_else(|| cells::str(claim, "spec.storageClassName")).to_owned()
}

/// `dataSource` and `dataSourceRef` say the same where both can.
fn data_sources(claim: &mut Value) {
    let Some(spec) = claim["spec"].as_object_mut() else { return };
    match (spec.get("dataSource").cloned(), spec.get("dataSourceRef").cloned()) {
        (Some(source), None) => {
            spec.insert("dataSourceRef".to_owned(), source);
        }
        (None, Some(mut reference))
            if reference.get("namespace").and_then(Value::as_str).unwrap_or_default().is_empty() =>
        {
            if let Some(map) = reference.as_object_mut() {
                map.remove("namespace");
            }
            spec.insert("dataSource".to_owned(), reference);
        }
        _ => {}
    }
}

/// A claim may grow, be bound once and change its class of attributes; nothing else.
fn update(new: &Value, old: &Value, errors: &mut ErrorList) {
    let (is, was) = (Node::of(new, "spec"), Node::of(old, "spec"));
    let storage = |spec: &Node<'_>| spec.get("resources").get("requests").get("storage").quantity();
    let mut same = is.value.clone();
    if let Some(spec) = same.as_object_mut() {
        let mut keep = |key: &str| match was.value.get(key) {
            Some(value) => spec.insert(key.to_owned(), value.clone()),
            None => spec.remove(key),
        };
        if was.is_empty("volumeName") {
            keep("volumeName");
        }
        keep("volumeAttributesClassName");
        if cells::str(old, "status.phase") == "Bound" {
            keep("resources");
        }
    }
    if same != *was.value {
        let why =
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        errors.push(field::forbidden(&is.path, why));
    }
    if let (Some(is_now), Some(had)) = (storage(&is), storage(&was))
        && is_now < had
    {
        let at = is.path.child("resources").child("requests").child("storage");
        errors.push(field::forbidden(&at, "field can not be less than status.capacity"));
    }
    immutable(&is, &was, "volumeMode", errors);
}
