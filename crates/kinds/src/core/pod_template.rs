//! PodTemplate (v1).

use crate::cells;
use crate::definition::Definition;
use crate::table::{NAME, TableColumn, column, words};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("", "v1", "PodTemplate", "podtemplates").generation().table(TABLE)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Containers", "string", words("Names of each container in the template."), |o, _| {
        cells::names(o, "template.spec.containers")
    }),
    column("Images", "string", words("Images referenced by each container in the template."), |o, _| {
        cells::images(o, "template.spec.containers")
    }),
    column("Pod Labels", "string", words("The labels for the pod template."), |o, _| {
        cells::labels(o, "template.metadata.labels")
    }),
];
