//! LimitRange (v1).

use crate::check::Node;
use crate::core::pod_spec;
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::meta;
use trireme_machinery::names;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("", "v1", "LimitRange", "limitranges").short(&["limits"]).create_on_update().hooks(LimitRange)
}

#[derive(Debug)]
struct LimitRange;

impl Hooks for LimitRange {
    fn prepare_create(&self, range: &mut Value, _: &Context<'_>) {
        if meta::name(range).is_empty() {
            range["metadata"]["name"] = range["metadata"]["uid"].clone();
        }
    }

    fn validate(&self, obj: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        validate(obj, &mut errors);
        errors
    }
}

fn validate(range: &Value, errors: &mut ErrorList) {
    let mut seen = Vec::new();
    for limit in Node::of(range, "spec").list("limits") {
        let ty = limit.str("type");
        limit.named("type", names::is_qualified_name, errors);
        if !ty.is_empty() && !ty.contains('/') && !matches!(ty, "Pod" | "Container" | "PersistentVolumeClaim") {
            limit.invalid("type", "must be a standard limit type or fully qualified", errors);
        }
        if seen.contains(&ty) {
            errors.push(field::duplicate(&limit.path.child("type"), ty));
        }
        seen.push(ty);
        for key in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
            if ty == "Pod" && key.starts_with("default") {
                limit.forbidden(key, "may not be specified when `type` is 'Pod'", errors);
                continue;
            }
            for (resource, amount) in limit.entries(key) {
                pod_spec::limit_resource_name(ty, resource, &amount.path, errors);
                pod_spec::quantity_value(resource, &amount, errors);
            }
        }
        order(&limit, errors);
    }
}

/// The least is not more than the most, and the defaults lie between.
fn order(limit: &Node<'_>, errors: &mut ErrorList) {
    let amount = |key: &str, resource: &str| limit.get(key).get(resource).quantity();
    let pairs = [
        ("min", "max", "min value", "max value"),
        ("defaultRequest", "max", "default request value", "max value"),
        ("min", "defaultRequest", "min value", "default request value"),
        ("defaultRequest", "default", "default request value", "default limit value"),
        ("default", "max", "default value", "max value"),
        ("min", "default", "min value", "default value"),
    ];
    for (low, high, low_name, high_name) in pairs {
        for (resource, node) in limit.entries(low) {
            if let (Some(less), Some(more)) = (node.quantity(), amount(high, resource))
                && less > more
            {
                let why = format!("{low_name} {less} is greater than {high_name} {more}");
                errors.push(field::invalid(&node.path, &less.to_string(), why));
            }
        }
    }
}
