//! MutatingAdmissionPolicyBinding (v1 of admissionregistration.k8s.io).

use super::validating_admission_policy_binding::param_ref;
use crate::cells;
use crate::check::Node;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, words};
use serde_json::Value;
use trireme_machinery::field::ErrorList;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new(
        "admissionregistration.k8s.io",
        "v1",
        "MutatingAdmissionPolicyBinding",
        "mutatingadmissionpolicybindings",
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

fn validate(obj: &Value, errors: &mut ErrorList) {
    let spec = Node::of(obj, "spec");
    super::validate::binding(&spec, errors);
    super::validate::mutating_operations(&spec.get("matchResources"), errors);
}
