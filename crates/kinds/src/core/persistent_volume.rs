//! PersistentVolume (v1).

use crate::check::{Node, POSITIVE, immutable};
use crate::core::pod_spec;
use serde_json::{Value, json};
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::meta;
use trireme_machinery::names;

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

    fn validate(&self, obj: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        validate(obj, &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value, ctx: &Context<'_>) -> ErrorList {
        let mut errors = self.validate(new, ctx);
        let (new, old) = (Node::of(new, "spec"), Node::of(old, "spec"));
        let sources = |spec: &Node<'_>| -> Vec<(String, Value)> {
            let all = spec.value.as_object().into_iter().flatten();
            all.filter(|(key, _)| !NOT_SOURCES.contains(&key.as_str())).map(|(k, v)| (k.clone(), v.clone())).collect()
        };
        if sources(&new) != sources(&old) {
            errors.push(field::forbidden(
                &new.path.child("persistentvolumesource"),
                "spec.persistentvolumesource is immutable after creation",
            ));
        }
        immutable(&new, &old, "volumeMode", &mut errors);
        if old.has("nodeAffinity") && new.get("nodeAffinity").value != old.get("nodeAffinity").value {
            immutable(&new, &old, "nodeAffinity", &mut errors);
        }
        errors
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

/// What the spec of a volume holds besides its source.
const NOT_SOURCES: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeMode",
    "volumeAttributesClassName",
];

fn validate(volume: &Value, errors: &mut ErrorList) {
    let spec = Node::of(volume, "spec");
    pod_spec::access_modes(&spec, "", errors);
    let capacity = spec.get("capacity");
    spec.required("capacity", errors);
    let amounts = spec.entries("capacity");
    if !capacity.has("storage") || amounts.len() > 1 {
        errors.push(field::not_supported(&capacity.path, capacity.value, ["storage"]));
    }
    for (_, amount) in &amounts {
        if amount.quantity().is_some_and(|q| q.is_zero() || q.is_negative()) {
            errors.push(field::invalid(&amount.path, amount.text(), POSITIVE));
        }
    }
    if !spec.is_empty("persistentVolumeReclaimPolicy") {
        spec.one_of("persistentVolumeReclaimPolicy", &["Delete", "Recycle", "Retain"], errors);
    }
    let affinity = spec.given("nodeAffinity");
    if let Some(affinity) = &affinity {
        match affinity.given("required") {
            Some(required) => pod_spec::node_selector(&required, true, errors),
            None => {
                errors.push(field::required(&affinity.path.child("required"), "must specify required node constraints"))
            }
        }
    }
    pod_spec::persistent_sources(&spec, meta::name(volume), affinity.is_some(), errors);
    let path = spec.get("hostPath").str("path").trim_end_matches('/');
    if spec.has("hostPath") && path.is_empty() && spec.str("persistentVolumeReclaimPolicy") == "Recycle" {
        let at = spec.path.child("persistentVolumeReclaimPolicy");
        errors.push(field::forbidden(&at, "may not be 'recycle' for a hostPath mount of '/'"));
    }
    if !spec.is_empty("storageClassName") {
        spec.named("storageClassName", names::is_dns1123_subdomain, errors);
    }
    spec.one_of("volumeMode", &["Block", "Filesystem"], errors);
    if spec.has("volumeAttributesClassName") {
        if spec.required_as("volumeAttributesClassName", "an empty string is disallowed", errors) {
            spec.named("volumeAttributesClassName", names::is_dns1123_subdomain, errors);
        }
        if !spec.has("csi") {
            errors.push(field::required(
                &spec.path.child("csi"),
                "has to be specified when using volumeAttributesClassName",
            ));
        }
    }
}
