//! StatefulSet (v1 of apps).

use crate::cells;
use crate::definition::Definition;
use crate::hooks::Hooks;
use crate::table::{AGE, NAME, TableColumn, column, containers, images, words};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("apps", "v1", "StatefulSet", "statefulsets")
        .short(&["sts"])
        .category("all")
        .generation()
        .scale()
        .status()
        .hooks(StatefulSet)
}

#[derive(Debug)]
struct StatefulSet;

impl Hooks for StatefulSet {
    fn table(&self) -> &'static [TableColumn] {
        TABLE
    }
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Ready", "string", words("Number of the pod with ready state"), |o, _| {
        format!("{}/{}", cells::int(o, "status.readyReplicas"), cells::int(o, "spec.replicas")).into()
    }),
    AGE,
    containers(|o, _| cells::names(o, "spec.template.spec.containers")),
    images(|o, _| cells::images(o, "spec.template.spec.containers")),
];
