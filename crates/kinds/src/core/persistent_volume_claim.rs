//! PersistentVolumeClaim (v1).

use serde_json::{Value, json};
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
        data_sources(claim);
    }

    fn prepare_update(&self, new: &mut Value, _: &Value, _: &Context<'_>) {
        data_sources(new);
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
