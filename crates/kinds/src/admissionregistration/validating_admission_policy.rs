//! ValidatingAdmissionPolicy (v1 of admissionregistration.k8s.io).

use crate::check::Node;
use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::meta;
use trireme_machinery::names;

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
        .check(validate)
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

const MAX_AUDIT_ANNOTATIONS: usize = 20;
/// In bytes.
const MAX_AUDIT_VALUE: usize = 5 * 1024;

fn validate(obj: &Value, errors: &mut ErrorList) {
    let spec = Node::of(obj, "spec");
    super::validate::policy(&spec, false, errors);
    if spec.is_empty("validations") && spec.is_empty("auditAnnotations") {
        for key in ["validations", "auditAnnotations"] {
            spec.required_as(key, "validations or auditAnnotations must contain at least one item", errors);
        }
    }
    for validation in spec.list("validations") {
        super::validate::expression(&validation, "expression", "expression is not specified", errors);
        for key in ["messageExpression", "message"] {
            let text = validation.str(key);
            if !text.is_empty() && text.trim().is_empty() {
                validation.invalid(key, "must be non-empty if specified", errors);
            }
        }
        if validation.str("message").trim().contains(['\n', '\r']) {
            validation.invalid("message", "must not contain line breaks", errors);
        }
        validation.one_of("reason", &["Forbidden", "Invalid", "RequestEntityTooLarge"], errors);
    }
    let annotations = spec.list("auditAnnotations");
    if annotations.len() > MAX_AUDIT_ANNOTATIONS {
        let why = format!("must not have more than {MAX_AUDIT_ANNOTATIONS} auditAnnotations");
        spec.invalid("auditAnnotations", why, errors);
    }
    let mut seen = Vec::new();
    for annotation in annotations {
        let (name, key, at) = (meta::name(obj), annotation.str("key"), annotation.path.child("key"));
        if name.is_empty() {
            errors.push(field::invalid(&at, key, "requires metadata.name be non-empty"));
        } else {
            let full = format!("{name}/{key}");
            errors.extend(names::is_qualified_name(&full).into_iter().map(|m| field::invalid(&at, &full, m)));
        }
        super::validate::expression(&annotation, "valueExpression", "valueExpression is not specified", errors);
        if annotation.str("valueExpression").trim().len() > MAX_AUDIT_VALUE {
            let why = format!("must not exceed {MAX_AUDIT_VALUE} bytes in length");
            errors.push(field::required(&annotation.path.child("valueExpression"), why));
        }
        if seen.contains(&key) {
            errors.push(field::duplicate(&at, key));
        }
        seen.push(key);
    }
}
