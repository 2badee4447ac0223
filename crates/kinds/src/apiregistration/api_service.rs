//! APIService (v1 of apiregistration.k8s.io).

use crate::cells;
use crate::check::Node;
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::rules::NameRule;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::names;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("apiregistration.k8s.io", "v1", "APIService", "apiservices")
        .free_finalizers()
        .names(NameRule::PathSegment)
        .cluster()
        .category("api-extensions")
        .stored_at("apiregistration.k8s.io/apiservices")
        .status()
        .conditional_update()
        .hooks(ApiService)
}

#[derive(Debug)]
struct ApiService;

impl Hooks for ApiService {
    fn validate(&self, obj: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        validate(obj, &mut errors);
        errors
    }

    fn prepare_create(&self, service: &mut Value, ctx: &Context<'_>) {
        // One that this server serves itself is available from the start.
        if cells::at(service, "spec.service").is_null() {
            service["status"]["conditions"] = json!([{
                "type": "Available",
                "status": "True",
                "lastTransitionTime": trireme_machinery::time::format(ctx.now),
                "reason": "Local",
                "message": "Local APIServices are always available",
            }]);
        }
    }
}

const MAX_GROUP_PRIORITY: i64 = 20_000;
const MAX_VERSION_PRIORITY: i64 = 1000;

fn validate(obj: &Value, errors: &mut ErrorList) {
    let spec = Node::of(obj, "spec");
    let (group, version) = (spec.str("group"), spec.str("version"));
    let metadata = Node::of(obj, "metadata");
    for key in ["generateName", "name"] {
        let (name, wanted) = (metadata.str(key), format!("{version}.{group}"));
        if !name.is_empty() && names::is_path_segment(name).is_empty() && name != wanted {
            metadata.invalid(key, format!("must be `spec.version+\".\"+spec.group`: {wanted:?}"), errors);
        }
    }
    if group.is_empty() {
        if version != "v1" {
            spec.required_as("group", "only v1 may have an empty group and it better be legacy kube", errors);
        }
    } else {
        spec.named("group", names::is_dns1123_subdomain, errors);
    }
    spec.named("version", names::is_dns1035_label, errors);
    for (key, max) in [("groupPriorityMinimum", MAX_GROUP_PRIORITY), ("versionPriority", MAX_VERSION_PRIORITY)] {
        let priority = spec.int(key);
        if !(1..=max).contains(&priority) {
            let why = format!("must be positive and less than {max}");
            errors.push(field::invalid(&spec.path.child(key), &priority, why));
        }
    }
    let Some(service) = spec.given("service") else {
        if !spec.is_empty("caBundle") {
            let size = STANDARD.decode(spec.str("caBundle")).map_or(0, |bytes| bytes.len());
            let why = "local APIServices may not have a caBundle";
            errors.push(field::invalid(&spec.path.child("caBundle"), &format!("{size} bytes"), why));
        }
        if spec.flag("insecureSkipTLSVerify") {
            let why = "local APIServices may not have insecureSkipTLSVerify";
            spec.invalid("insecureSkipTLSVerify", why, errors);
        }
        return;
    };
    service.required("namespace", errors);
    service.required("name", errors);
    let wrong = names::is_port_number(service.int("port"));
    if !wrong.is_empty() {
        let why = format!("port is not valid: {}", wrong.join(", "));
        errors.push(field::invalid(&service.path.child("port"), &service.int("port"), why));
    }
    if spec.flag("insecureSkipTLSVerify") && !spec.is_empty("caBundle") {
        spec.invalid("insecureSkipTLSVerify", "may not be true if caBundle is present", errors);
    }
}
