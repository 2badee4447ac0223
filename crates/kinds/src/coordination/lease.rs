//! Lease (v1 of coordination.k8s.io).

use crate::cells;
use crate::check::Node;
use crate::definition::Definition;
use crate::table::{AGE, NAME, TableColumn, column, field};
use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::names;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("coordination.k8s.io", "v1", "Lease", "leases")
        .free_finalizers()
        .conditional_update()
        .create_on_update()
        .table(TABLE)
        .check(validate)
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Holder", "string", field("coordination.v1.LeaseSpec", "holderIdentity"), |o, _| {
        cells::text(o, "spec.holderIdentity")
    }),
    AGE,
];

fn validate(obj: &Value, errors: &mut ErrorList) {
    let spec = Node::of(obj, "spec");
    if spec.opt_int("leaseDurationSeconds").is_some_and(|n| n <= 0) {
        spec.invalid("leaseDurationSeconds", "must be greater than 0", errors);
    }
    spec.nonnegative("leaseTransitions", errors);
    if let Some(strategy) = spec.given("strategy") {
        let (text, at) = (strategy.text(), strategy.path.child("strategy"));
        if text.contains('/') {
            errors.extend(names::is_qualified_name(text).into_iter().map(|m| field::invalid(&at, text, m)));
        } else if text != "OldestEmulationVersion" {
            errors.push(field::not_supported(&at, text, ["OldestEmulationVersion"]));
        }
    }
    if !spec.is_empty("preferredHolder") && spec.is_empty("strategy") {
        spec.forbidden("preferredHolder", "may only be specified if `strategy` is defined", errors);
    }
}
