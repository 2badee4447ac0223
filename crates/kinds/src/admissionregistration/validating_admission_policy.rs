//! ValidatingAdmissionPolicy (v1 of admissionregistration.k8s.io).

use serde_json::Value;

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, words};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies")
        .free_finalizers()
        .cluster()
        .category("api-extensions")
        .generation()
        .status()
        .conditional_update()
        .table(TABLE)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column(
        "Validations",
        "integer",
        words("Validations indicates the number of validation rules defined in this configuration"),
        |o, _| cells::count(o, "spec.validations"),
    ),
    column(
        "ParamKind",
        "string",
        words("ParamKind specifies the kind of resources used to parameterize this policy"),
        |o, _| param_kind(o).into(),
    ),
    AGE,
];

/// The kind of a policy's parameters.
pub(crate) fn param_kind(policy: &Value) -> String {
    match cells::at(policy, "spec.paramKind") {
        Value::Null => "<unset>".to_owned(),
        kind => format!("{}/{}", cells::str(kind, "apiVersion"), cells::str(kind, "kind")),
    }
}
