//! What is wrong with requests and limits.

use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::names;
use trireme_machinery::path::Path;
use trireme_machinery::quantity::Quantity;

use crate::check::{NOT_NEGATIVE, Node};

/// Resources that a container can ask for by a short name.
const OF_CONTAINERS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// Resources that have short names at all.
const STANDARD: [&str; 20] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
    "requests.storage",
    "storage",
];
/// Resources that come in whole pieces.
const INTEGER: [&str; 8] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
];

fn is_huge_page(resource: &str) -> bool {
    resource.starts_with("hugepages-")
}

/// Resources of Kubernetes itself: without a prefix, or with its own.
fn is_native_resource(resource: &str) -> bool {
    !resource.contains('/') || resource.split('/').next().is_some_and(|p| p.contains("kubernetes.io"))
}

/// Resources that devices offer, as `example.com/gpu`.
fn is_extended_resource(resource: &str) -> bool {
    !is_native_resource(resource)
        && !resource.starts_with("requests.")
        && names::is_qualified_name(&format!("requests.{resource}")).is_empty()
}

fn may_overcommit(resource: &str) -> bool {
    is_native_resource(resource) && !is_huge_page(resource)
}

fn is_integer(resource: &str) -> bool {
    INTEGER.contains(&resource) || resource == "services.loadbalancers" || is_extended_resource(resource)
}

/// Whether a short name is a resource that Kubernetes knows.
pub(crate) fn resource_name(resource: &str, at: &Path, errors: &mut ErrorList) -> bool {
    let wrong = names::is_qualified_name(resource);
    let fine = wrong.is_empty();
    errors.extend(wrong.into_iter().map(|m| field::invalid(at, resource, m)));
    if fine
        && !resource.contains('/')
        && !STANDARD.contains(&resource)
        && !is_huge_page(resource)
        && !is_quota_huge_page(resource)
    {
        errors.push(field::invalid(at, resource, "must be a standard resource type or fully qualified"));
        return false;
    }
    fine
}

fn is_quota_huge_page(resource: &str) -> bool {
    resource.starts_with("requests.hugepages-")
}

/// Whether a container can ask for a resource.
pub(crate) fn container_resource_name(resource: &str, at: &Path, errors: &mut ErrorList) {
    resource_name(resource, at, errors);
    if !resource.contains('/') {
        if !OF_CONTAINERS.contains(&resource) && !is_huge_page(resource) {
            errors.push(field::invalid(at, resource, "must be a standard resource for containers"));
        }
    } else if !is_native_resource(resource) && !is_extended_resource(resource) {
        errors.push(field::invalid(at, resource, "doesn't follow extended resource name standard"));
    }
}

/// Whether a limit range can limit a resource of this type of thing.
pub(crate) fn limit_resource_name(ty: &str, resource: &str, at: &Path, errors: &mut ErrorList) {
    if matches!(ty, "Pod" | "Container") {
        container_resource_name(resource, at, errors)
    } else {
        let _ = resource_name(resource, at, errors);
    }
}

/// Whether a quota can bound a resource.
pub(crate) fn quota_resource_name(resource: &str, at: &Path, errors: &mut ErrorList) {
    const MORE: [&str; 1] = ["limits.storage"];
    let wrong = names::is_qualified_name(resource);
    let fine = wrong.is_empty();
    errors.extend(wrong.into_iter().map(|m| field::invalid(at, resource, m)));
    let known = STANDARD.contains(&resource)
        || is_huge_page(resource)
        || is_quota_huge_page(resource)
        || MORE.contains(&resource);
    if fine && !resource.contains('/') && !known {
        errors.push(field::invalid(at, resource, "must be a standard resource for quota"));
    }
}

fn pod_resource_name(resource: &str, at: &Path, errors: &mut ErrorList) {
    if resource_name(resource, at, errors) && !matches!(resource, "cpu" | "memory") && !is_huge_page(resource) {
        errors.push(field::not_supported(at, &resource, ["cpu", "memory"]));
    }
}

/// Of an amount of a resource.
pub(crate) fn quantity_value(resource: &str, amount: &Node<'_>, errors: &mut ErrorList) {
    let Some(quantity) = amount.quantity() else { return };
    if quantity.is_negative() {
        errors.push(field::invalid(&amount.path, amount.text(), NOT_NEGATIVE));
    }
    if is_integer(resource) && quantity.milli_value() % 1000 != 0 {
        errors.push(field::invalid(&amount.path, amount.text(), "must be an integer"));
    }
}

pub(super) fn of_container(resources: &Node<'_>, claims: &[&str], errors: &mut ErrorList) {
    requirements(resources, claims, container_resource_name, errors);
}

pub(super) fn of_pod(spec: &Node<'_>, claims: &[&str], errors: &mut ErrorList) {
    let Some(resources) = spec.given("resources") else { return };
    if spec.get("os").str("name") == "windows" {
        errors.push(field::forbidden(&resources.path, "may not be set for a windows pod"));
        return;
    }
    if !resources.is_empty("claims") {
        errors.push(field::forbidden(
            &resources.path.child("claims"),
            "claims may not be set for Resources at pod-level",
        ));
    }
    requirements(&resources, claims, pod_resource_name, errors);
    consistency(spec, &resources, errors);
}

fn requirements(
    resources: &Node<'_>,
    claims: &[&str],
    name_rule: fn(&str, &Path, &mut ErrorList),
    errors: &mut ErrorList,
) {
    let (limits, requests) = (resources.entries("limits"), resources.entries("requests"));
    for (resource, limit) in &limits {
        name_rule(resource, &limit.path, errors);
        quantity_value(resource, limit, errors);
    }
    let at = resources.path.child("requests");
    for (resource, request) in &requests {
        name_rule(resource, &request.path, errors);
        quantity_value(resource, request, errors);
        let limit = limits.iter().find(|(r, _)| r == resource).and_then(|(_, limit)| limit.quantity());
        match (request.quantity(), limit) {
            (Some(request), Some(limit)) if request != limit && !may_overcommit(resource) => {
                let why = format!("must be equal to {resource} limit of {limit}");
                errors.push(field::invalid(&at, &request.to_string(), why));
            }
            (Some(request), Some(limit)) if request > limit => {
                let why = format!("must be less than or equal to {resource} limit of {limit}");
                errors.push(field::invalid(&at, &request.to_string(), why));
            }
            (_, None) if !may_overcommit(resource) => {
                errors.push(field::required(
                    &resources.path.child("limits"),
                    "Limit must be set for non overcommitable resources",
                ));
            }
            _ => {}
        }
    }
    let all = || limits.iter().chain(&requests).map(|(r, _)| *r);
    if all().any(is_huge_page) && !all().any(|r| matches!(r, "cpu" | "memory")) {
        errors.push(field::forbidden(&resources.path, "HugePages require cpu or memory"));
    }
    claim_names(resources, claims, errors);
}

fn claim_names(resources: &Node<'_>, claims: &[&str], errors: &mut ErrorList) {
    let mut seen: Vec<String> = Vec::new();
    for claim in resources.list("claims") {
        let (name, request) = (claim.str("name"), claim.str("request"));
        if name.is_empty() {
            errors.push(field::required(&claim.path, ""));
            continue;
        }
        if seen.iter().any(|s| s == name) {
            errors.push(field::duplicate(&claim.path, name));
        } else {
            let mut key = name.to_owned();
            if !request.is_empty() {
                claim.named("request", names::is_dns1123_label, errors);
                key = format!("{name}/{request}");
            }
            if seen.contains(&key) {
                errors.push(field::duplicate(&claim.path, &key));
            } else if request.is_empty() {
                let doubles = seen.iter().filter(|s| s.split_once('/').is_some_and(|(n, _)| n == name)).count();
                (0..doubles).for_each(|_| errors.push(field::duplicate(&claim.path, name)));
            }
            seen.push(key);
        }
        if !claims.contains(&name) {
            let mut sorted = claims.to_vec();
            sorted.sort_unstable();
            let list =
                if sorted.is_empty() { " which is empty".to_owned() } else { format!(": {}", sorted.join(", ")) };
            let mut error = field::not_found(&claim.path, name);
            error.detail = format!("must be one of the names in pod.spec.resourceClaims{list}");
            errors.push(error);
        }
    }
}

/// What the containers ask for must fit into what the Pod asks for.
fn consistency(spec: &Node<'_>, resources: &Node<'_>, errors: &mut ErrorList) {
    let containers = spec.list("containers");
    for (resource, own) in resources.entries("requests") {
        let asked = containers.iter().filter_map(|c| c.get("resources").get("requests").get(resource).quantity());
        let sum = asked.fold(Quantity::zero(), |sum, q| sum.add(&q));
        if own.quantity().is_some_and(|own| sum > own) {
            let why = format!("must be greater than or equal to aggregate container requests of {sum}");
            errors.push(field::invalid(&own.path, own.text(), why));
        }
    }
    for (i, container) in containers.iter().enumerate() {
        for (resource, limit) in container.get("resources").entries("limits") {
            let own = resources.get("limits").get(resource).quantity();
            if let (Some(limit), Some(own)) = (limit.quantity(), own)
                && limit > own
            {
                let at = resources.path.child("containers").index(i).key(resource).child("limits");
                errors.push(field::invalid(
                    &at,
                    &limit.to_string(),
                    format!("must be less than or equal to pod limits of {own}"),
                ));
            }
        }
    }
}
