//! PersistentVolume (v1).

use serde_json::{Value, json};
use trireme_machinery::meta;

use crate::cells;
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::table::{AGE, NAME, TableColumn, column, field, wide, words};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("", "v1", "PersistentVolume", "persistentvolumes")
        .cluster()
        .short(&["pv"])
        .status()
        .hooks(PersistentVolume)
}

#[derive(Debug)]
struct PersistentVolume;

impl Hooks for PersistentVolume {
    fn table(&self) -> &'static [TableColumn] {
        TABLE
    }

    fn prepare_create(&self, volume: &mut Value, ctx: &Context<'_>) {
        volume["status"] =
            json!({"phase": "Pending", "lastPhaseTransitionTime": trireme_machinery::time::format(ctx.now)});
    }

    fn prepare_update_status(&self, new: &mut Value, old: &Value, ctx: &Context<'_>) {
        let key = "lastPhaseTransitionTime";
        let (had, has) = (old["status"].get(key), new["status"].get(key));
        if new["status"]["phase"] != old["status"]["phase"] {
            if has.is_none() || has == had {
                new["status"][key] = trireme_machinery::time::format(ctx.now).into();
            }
        } else if let (None, Some(time)) = (has, had) {
            new["status"][key] = time.clone();
        }
    }
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Capacity", "string", field("core.v1.PersistentVolumeSpec", "capacity"), |o, _| {
        cells::quantity(&cells::at(o, "spec.capacity")["storage"]).into()
    }),
    column("Access Modes", "string", field("core.v1.PersistentVolumeSpec", "accessModes"), |o, _| {
        cells::access_modes(o, "spec.accessModes")
    }),
    column(
        "Reclaim Policy",
        "string",
        field("core.v1.PersistentVolumeSpec", "persistentVolumeReclaimPolicy"),
        |o, _| cells::text(o, "spec.persistentVolumeReclaimPolicy"),
    ),
    column("Status", "string", field("core.v1.PersistentVolumeStatus", "phase"), |o, _| {
        if meta::is_deleting(o) { "Terminating".into() } else { cells::text(o, "status.phase") }
    }),
    column("Claim", "string", field("core.v1.PersistentVolumeSpec", "claimRef"), |o, _| claim(o).into()),
    column("StorageClass", "string", words("StorageClass of the pv"), |o, _| storage_class(o).into()),
    column("VolumeAttributesClass", "string", words("VolumeAttributesClass of the pv"), |o, _| {
        cells::text_or(o, "spec.volumeAttributesClassName", "<unset>")
    }),
    column("Reason", "string", field("core.v1.PersistentVolumeStatus", "reason"), |o, _| {
        cells::text(o, "status.reason")
    }),
    AGE,
    wide("VolumeMode", "string", field("core.v1.PersistentVolumeSpec", "volumeMode"), |o, _| {
        cells::text_or(o, "spec.volumeMode", "<unset>")
    }),
];

fn claim(volume: &Value) -> String {
    match cells::at(volume, "spec.claimRef") {
        Value::Null => String::new(),
        claim => format!("{}/{}", cells::str(claim, "namespace"), cells::str(claim, "name")),
    }
}

fn storage_class(volume: &Value) -> String {
    let old = meta::annotation(volume, "volume.beta.kubernetes.io/storage-class");
    old.unwrap_or_else(|| cells::str(volume, "spec.storageClassName")).to_owned()
}
