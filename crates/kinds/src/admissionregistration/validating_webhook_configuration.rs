//! ValidatingWebhookConfiguration (v1 of admissionregistration.k8s.io).

use crate::cells;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, words};
use serde_json::Value;
use trireme_machinery::field::ErrorList;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new(
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
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
        "Webhooks",
        "integer",
        words("Webhooks indicates the number of webhooks registered in this configuration"),
        |o, _| cells::count(o, "webhooks"),
    ),
    AGE,
];

fn validate(obj: &Value, errors: &mut ErrorList) {
    super::validate::webhooks(obj, false, errors);
}
