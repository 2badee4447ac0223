//! ValidatingAdmissionPolicyBinding (v1 of admissionregistration.k8s.io).

use crate::check::Node;
use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};

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
    .check(validate)
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

const ACTIONS: &[&str] = &["Audit", "Deny", "Warn"];

fn validate(obj: &Value, errors: &mut ErrorList) {
    let spec = Node::of(obj, "spec");
    super::validate::binding(&spec, errors);
    let mut seen = Vec::new();
    for action in spec.list("validationActions") {
        let text = action.text();
        if !ACTIONS.contains(&text) {
            errors.push(field::not_supported(&action.path, text, ACTIONS));
        }
        if seen.contains(&text) {
            errors.push(field::duplicate(&action.path, text));
        }
        seen.push(text);
    }
    if seen.contains(&"Deny") && seen.contains(&"Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                   response and headers serves no purpose)";
        spec.invalid("validationActions", why, errors);
    }
    spec.required("validationActions", errors);
}
