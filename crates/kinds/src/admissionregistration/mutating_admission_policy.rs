//! MutatingAdmissionPolicy (v1 of admissionregistration.k8s.io).

use super::validating_admission_policy::param_kind;
use crate::cells;
use crate::check::Node;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, words};
use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("admissionregistration.k8s.io", "v1", "MutatingAdmissionPolicy", "mutatingadmissionpolicies")
        .free_finalizers()
        .cluster()
        .category("api-extensions")
        .generation()
        .conditional_update()
        .table(TABLE)
        .check(validate)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column(
        "Mutations",
        "integer",
        words("Mutation indicates the number of mutations rules defined in this configuration"),
        |o, _| cells::count(o, "spec.mutations"),
    ),
    column(
        "ParamKind",
        "string",
        words("ParamKind specifies the kind of resources used to parameterize this policy"),
        |o, _| param_kind(o).into(),
    ),
    AGE,
];

fn validate(obj: &Value, errors: &mut ErrorList) {
    let spec = Node::of(obj, "spec");
    super::validate::policy(&spec, true, errors);
    spec.required_as("mutations", "mutations must contain at least one item", errors);
    for mutation in spec.list("mutations") {
        let (own, other, ty) = match mutation.str("patchType") {
            "JSONPatch" => ("jsonPatch", "applyConfiguration", "JSONPatch"),
            "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", "ApplyConfiguration"),
            _ => {
                mutation.required_one_of("patchType", &["ApplyConfiguration", "JSONPatch"], errors);
                continue;
            }
        };
        match mutation.given(own) {
            None => {
                let why = format!("must be specified when patchType is {ty}");
                errors.push(field::required(&mutation.path.child(own), why));
            }
            Some(patch) => super::validate::expression(&patch, "expression", "", errors),
        }
        if mutation.has(other) {
            let why = format!("must not be specified when patchType is {ty}");
            errors.push(field::invalid(&mutation.path.child(other), &format!("{{{other}}}"), why));
        }
    }
    spec.required_one_of("reinvocationPolicy", &["IfNeeded", "Never"], errors);
}
