//! PodTemplate (v1).

use crate::cells;
use crate::check::Node;
use crate::core::{pod_spec, pod_warnings};
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::table::{NAME, TableColumn, column, words};
use serde_json::Value;
use trireme_machinery::field::ErrorList;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("", "v1", "PodTemplate", "podtemplates").generation().hooks(PodTemplate)
}

#[derive(Debug)]
struct PodTemplate;

impl Hooks for PodTemplate {
    fn table(&self) -> &'static [TableColumn] {
        TABLE
    }

    fn warnings(&self, template: &Value, old: Option<&Value>) -> Vec<String> {
        pod_warnings::of_workload(template, old, &["template"])
    }

    fn validate(&self, template: &Value, _: &Context<'_>) -> ErrorList {
        pod_spec::template(&Node::of(template, "template"))
    }
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
