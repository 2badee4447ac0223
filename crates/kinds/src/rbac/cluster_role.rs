//! ClusterRole (v1 of rbac.authorization.k8s.io).

use crate::check::Node;
use crate::definition::Definition;
use crate::rules::NameRule;
use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::labels::{Options, Selector, validate_selector};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles")
        .cluster()
        .create_on_update()
        .names(NameRule::PathSegment)
        .check(validate)
}

fn validate(obj: &Value, errors: &mut ErrorList) {
    for rule in Node::root(obj).list("rules") {
        super::validate::rule(&rule, false, errors);
    }
    let Some(aggregation) = Node::root(obj).given("aggregationRule") else { return };
    let at = aggregation.path.child("clusterRoleSelectors");
    let selectors = aggregation.list("clusterRoleSelectors");
    if selectors.is_empty() {
        let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.push(field::required(&at, why));
    }
    for selector in selectors {
        errors.extend(validate_selector(selector.value, Options::default(), &selector.path));
        if Selector::from_label_selector(selector.value).is_err() {
            errors.push(field::invalid(&selector.path, &Value::Null, "invalid label selector."));
        }
    }
}
