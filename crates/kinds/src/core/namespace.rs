//! Namespace (v1).

use crate::cells;
use crate::check::Node;
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::metadata;
use crate::rules::NameRule;
use crate::table::{AGE, NAME, TableColumn, column, words};
use serde_json::{Value, json};
use trireme_machinery::field::ErrorList;
use trireme_machinery::path::Path;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("", "v1", "Namespace", "namespaces")
        .cluster()
        .short(&["ns"])
        .only(&["create", "delete", "get", "list", "patch", "update", "watch"])
        .serves("finalize", "Namespace", &["update"])
        .status()
        .names(NameRule::Label)
        .hooks(Namespace)
}

#[derive(Debug)]
struct Namespace;

impl Hooks for Namespace {
    fn table(&self) -> &'static [TableColumn] {
        TABLE
    }

    fn selectable_field_names(&self) -> &'static [&'static str] {
        &["status.phase"]
    }

    fn prepare_create(&self, namespace: &mut Value, _: &Context<'_>) {
        namespace["status"] = json!({"phase": "Active"});
        let mut finalizers = cells::list(namespace, "spec.finalizers").to_vec();
        if !finalizers.iter().any(|f| f == "kubernetes") {
            finalizers.push("kubernetes".into());
        }
        namespace["spec"]["finalizers"] = finalizers.into();
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, _: &Context<'_>) {
        match cells::at(old, "spec.finalizers") {
            Value::Null => {
                if let Some(spec) = new["spec"].as_object_mut() {
                    spec.remove("finalizers");
                }
            }
            finalizers => new["spec"]["finalizers"] = finalizers.clone(),
        }
    }

    fn validate(&self, namespace: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        let at = Path::new("spec").child("finalizers");
        for finalizer in Node::of(namespace, "spec").list("finalizers") {
            errors.extend(metadata::finalizer(finalizer.text(), &at));
        }
        errors
    }

    fn validate_subresource(&self, subresource: &str, new: &Value, _: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        if subresource == "finalize" {
            let at = Path::new("spec").child("finalizers");
            for (i, finalizer) in Node::of(new, "spec").list("finalizers").into_iter().enumerate() {
                errors.extend(metadata::finalizer(finalizer.text(), &at.index(i)));
            }
        }
        errors
    }
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Status", "string", words("The status of the namespace"), |o, _| cells::text(o, "status.phase")),
    AGE,
];
