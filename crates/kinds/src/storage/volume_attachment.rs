//! VolumeAttachment (v1 of storage.k8s.io).

use crate::cells;
use crate::check::{Node, immutable};
use crate::core::pod_spec;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, field};
use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::names;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments")
        .cluster()
        .status()
        .conditional_update()
        .table(TABLE)
        .check(validate)
        .check_update(validate_update)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Attacher", "string", field("storage.v1.VolumeAttachmentSpec", "attacher"), |o, _| {
        cells::text(o, "spec.attacher")
    })
    .formatted("name"),
    column("PV", "string", field("storage.v1.VolumeAttachmentSource", "persistentVolumeName"), |o, _| {
        cells::text(o, "spec.source.persistentVolumeName")
    }),
    column("Node", "string", field("storage.v1.VolumeAttachmentSpec", "nodeName"), |o, _| {
        cells::text(o, "spec.nodeName")
    }),
    column("Attached", "boolean", field("storage.v1.VolumeAttachmentStatus", "attached"), |o, _| {
        cells::truth(o, "status.attached", false)
    }),
    AGE,
];

fn validate(obj: &Value, errors: &mut ErrorList) {
    let spec = Node::of(obj, "spec");
    super::validate::csi_driver(&spec.get("attacher"), errors);
    let source = spec.get("source");
    const ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (source.given("inlineVolumeSpec"), source.given("persistentVolumeName")) {
        (None, None) => errors.push(field::required(&source.path, ONE)),
        (Some(_), Some(_)) => errors.push(field::forbidden(&source.path, ONE)),
        (None, Some(name)) => {
            if name.text().is_empty() {
                errors.push(field::required(&name.path, "must specify non empty persistentVolumeName"));
            }
        }
        (Some(volume), None) => pod_spec::persistent_sources(&volume, "", true, errors),
    }
    spec.named("nodeName", names::is_dns1123_subdomain, errors);
    if let Some(name) = source.given("persistentVolumeName") {
        name.is_named(names::is_dns1123_subdomain, errors);
    }
}

fn validate_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    validate(new, errors);
    let (new, old) = (Node::root(new), Node::root(old));
    immutable(&new, &old, "spec", errors);
}
