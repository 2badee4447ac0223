//! ValidatingAdmissionPolicyBinding (v1 of admissionregistration.k8s.io).

use serde_json::Value;

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, words};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new(
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
    )
    .free_finalizers()
    .cluster()
    .category("api-extensions")
    .generation()
    .conditional_update()
    .table(TABLE)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column(
        "PolicyName",
        "string",
        words("PolicyName indicates the policy definition which the policy binding binded to"),
        |o, _| cells::text(o, "spec.policyName"),
    ),
    column(
        "ParamRef",
        "string",
        words("ParamRef indicates the param resource which sets the configuration param"),
        |o, _| param_ref(o).into(),
    ),
    AGE,
];

/// The parameters that a binding names.
pub(crate) fn param_ref(binding: &Value) -> String {
    let reference = cells::at(binding, "spec.paramRef");
    match (cells::str(reference, "name"), cells::str(reference, "namespace")) {
        ("", _) => "<unset>".to_owned(),
        (name, "") => format!("*/{name}"),
        (name, namespace) => format!("{namespace}/{name}"),
    }
}
