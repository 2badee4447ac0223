//! VolumeAttachment (v1 of storage.k8s.io).

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, field};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments")
        .cluster()
        .status()
        .conditional_update()
        .table(TABLE)
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
