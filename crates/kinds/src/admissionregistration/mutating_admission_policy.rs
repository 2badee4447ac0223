//! MutatingAdmissionPolicy (v1 of admissionregistration.k8s.io).

use super::validating_admission_policy::param_kind;
use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, words};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("admissionregistration.k8s.io", "v1", "MutatingAdmissionPolicy", "mutatingadmissionpolicies")
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
