//! What is wrong with a Pod's spec, in a Pod or in the template of a workload.
//!
//! Each module knows only those below it:
//!
//! | module | concern |
//! |---|---|
//! | here | the spec as a whole |
//! | [`containers`] | containers, and which of them go together |
//! | [`volumes`] | volumes and mounts |
//! | [`env`], [`probes`], [`security`], [`resources`], [`affinity`] | one part of a container or of the spec each |
//! | [`shared`], [`paths`] | what the parts have in common |

mod affinity;
mod containers;
mod env;
mod paths;
mod probes;
mod resources;
mod security;
mod shared;
mod volumes;

pub(crate) use affinity::{node_selector, tolerations};
pub(crate) use resources::{
    container_resource_name, limit_resource_name, quantity_value, quota_resource_name, resource_name,
};
pub(crate) use volumes::{access_modes, claim_spec, persistent_sources, signer_name};

use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::names;
use trireme_machinery::path::Path;

use crate::check::Node;
use crate::{ip, metadata};

const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
const MAX_SEARCH_CHARACTERS: usize = 2048;

/// Of a Pod that is created.
pub(crate) fn new_pod(new: &Value) -> ErrorList {
    let mut errors = pod(new);
    let spec = Node::of(new, "spec");
    if !spec.is_empty("ephemeralContainers") {
        errors.push(field::forbidden(&spec.path.child("ephemeralContainers"), "cannot be set on create"));
    }
    if !spec.is_empty("nodeName") && !spec.is_empty("schedulingGates") {
        errors.push(field::forbidden(
            &spec.path.child("nodeName"),
            "cannot be set until all schedulingGates have been cleared",
        ));
    }
    errors
}

/// Of a whole Pod, new or not.
pub(crate) fn pod(pod: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = Node::of(pod, "spec");
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    annotations(&pod["metadata"]["annotations"], &spec, &Path::new("metadata").child("annotations"), &mut errors);
    errors.extend(validate(&spec, Some(name)));
    spec.nonnegative("terminationGracePeriodSeconds", &mut errors);
    for list in ["containers", "initContainers"] {
        for container in spec.list(list) {
            containers::only_for_pods(&container, &mut errors);
        }
    }
    errors
}

/// Of a template.
pub(crate) fn template(template: &Node<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    let metadata = &template.value["metadata"];
    errors.extend(metadata::labels(&metadata["labels"], &template.path.child("labels")));
    errors.extend(metadata::annotations(&metadata["annotations"], &template.path.child("annotations")));
    let spec = template.get("spec");
    annotations(&metadata["annotations"], &spec, &template.path.child("annotations"), &mut errors);
    errors.extend(validate(&spec, None));
    if !spec.is_empty("ephemeralContainers") {
        errors.push(field::forbidden(
            &spec.path.child("ephemeralContainers"),
            "ephemeral containers not allowed in pod template",
        ));
    }
    errors
}

/// Annotations that mean something for the spec.
fn annotations(annotations: &Value, spec: &Node<'_>, at: &Path, errors: &mut ErrorList) {
    const MIRROR: &str = "kubernetes.io/config.mirror";
    const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
    if let Some(mirror) = annotations[MIRROR].as_str()
        && spec.is_empty("nodeName")
    {
        errors.push(field::invalid(&at.key(MIRROR), mirror, "must set spec.nodeName if mirror pod annotation is set"));
    }
    if let Some(cost) = annotations[DELETION_COST].as_str()
        && (cost.parse::<i32>().is_err() || cost.starts_with('+') || (cost.len() > 1 && cost.starts_with('0')))
    {
        errors.push(field::invalid(&at.key(DELETION_COST), cost, "must be a 32bit integer"));
    }
}

/// Of a spec; `pod` is the name of the Pod if it is one.
fn validate(spec: &Node<'_>, pod: Option<&str>) -> ErrorList {
    let mut errors = ErrorList::new();
    let e = &mut errors;
    spec.required_one_given("terminationGracePeriodSeconds", e);
    let volumes = volumes::validate(spec, pod, e);
    let claims: Vec<&str> =
        spec.list("resourceClaims").iter().map(|c| c.str("name")).filter(|n| !n.is_empty()).collect();
    resource_claims(spec, e);
    let shared = shared::Shared {
        volumes: &volumes,
        claims: &claims,
        grace: spec.opt_int("terminationGracePeriodSeconds"),
        restart_policy: spec.str("restartPolicy"),
        os: spec.given("os").map(|os| os.str("name")),
        host_users: !spec.has("hostUsers") || spec.flag("hostUsers"),
    };
    containers::validate(spec, &shared, e);
    resources::of_pod(spec, &claims, e);
    host_network(spec, pod.is_some(), e);
    spec.required_one_of("restartPolicy", &["Always", "OnFailure", "Never"], e);
    spec.required_one_of("dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"], e);
    e.extend(metadata::labels(spec.get("nodeSelector").value, &spec.path.child("nodeSelector")));
    security::of_pod(spec, e);
    if spec.flag("shareProcessNamespace") && spec.flag("hostPID") {
        spec.invalid("shareProcessNamespace", "ShareProcessNamespace and HostPID cannot both be enabled", e);
    }
    affinity::validate(&spec.get("affinity"), e);
    dns(spec, e);
    for gate in spec.list("readinessGates") {
        gate.named("conditionType", names::is_qualified_name, e);
    }
    scheduling_gates(spec, e);
    affinity::topology_spread(spec, e);
    security::host_process(spec, e);
    host_users(spec, e);
    host_name(spec, e);
    for (key, rule) in [
        ("serviceAccountName", names::is_dns1123_subdomain as fn(&str) -> Vec<String>),
        ("nodeName", names::is_dns1123_subdomain),
        ("hostname", names::is_dns1123_label),
        ("subdomain", names::is_dns1123_label),
        ("priorityClassName", names::is_dns1123_subdomain),
    ] {
        if !spec.is_empty(key) {
            spec.named(key, rule, e);
        }
    }
    spec.within("activeDeadlineSeconds", 1, i64::from(i32::MAX), e);
    affinity::tolerations(spec, e);
    for alias in spec.list("hostAliases") {
        e.extend(ip::address(&alias.path.child("ip"), alias.str("ip")));
        for hostname in alias.list("hostnames") {
            hostname.is_named(names::is_dns1123_subdomain, e);
        }
    }
    if spec.has("runtimeClassName") {
        spec.named("runtimeClassName", names::is_dns1123_subdomain, e);
    }
    spec.one_of("preemptionPolicy", &["PreemptLowerPriority", "Never"], e);
    for (resource, amount) in spec.entries("overhead") {
        let at = spec.path.child("overhead").child("limits").key(resource);
        resources::container_resource_name(resource, &at, e);
        quantity_value(resource, &Node { value: amount.value, path: at }, e);
    }
    if let Some(os) = spec.given("os") {
        match os.str("name") {
            "" => {
                os.required("name", e);
            }
            "linux" => security::linux(spec, e),
            "windows" => security::windows(spec, e),
            other => e.push(field::not_supported(&os.path, &other, ["linux", "windows"])),
        }
    }
    if let Some(group) = spec.given("schedulingGroup") {
        if group.has("podGroupName") {
            group.named("podGroupName", names::is_dns1123_subdomain, e);
        } else {
            group.invalid("podGroupName", "must specify one of: `podGroupName`", e);
        }
    }
    env::file_key_volumes(spec, e);
    errors
}

fn resource_claims(spec: &Node<'_>, errors: &mut ErrorList) {
    let mut seen = Vec::new();
    for claim in spec.list("resourceClaims") {
        let name = claim.str("name");
        if claim.required("name", errors) {
            if seen.contains(&name) {
                errors.push(field::duplicate(&claim.path.child("name"), name));
            } else {
                claim.named("name", names::is_dns1123_label, errors);
                seen.push(name);
            }
        }
        let (direct, template) = (claim.has("resourceClaimName"), claim.has("resourceClaimTemplateName"));
        if direct == template {
            let value = serde_json::json!({
                "Name": name,
                "ResourceClaimName": claim.get("resourceClaimName").value,
                "ResourceClaimTemplateName": claim.get("resourceClaimTemplateName").value,
            });
            let why = if direct {
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            } else {
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            };
            errors.push(field::invalid(&claim.path, &value, why));
        }
        for key in ["resourceClaimName", "resourceClaimTemplateName"] {
            if claim.has(key) {
                claim.named(key, names::is_dns1123_subdomain, errors);
            }
        }
    }
}

fn host_network(spec: &Node<'_>, is_pod: bool, errors: &mut ErrorList) {
    if !spec.flag("hostNetwork") {
        return;
    }
    for container in spec.list("containers") {
        for port in container.list("ports") {
            let (host, own) = (port.int("hostPort"), port.int("containerPort"));
            if (is_pod || host != 0) && host != own {
                let why = "must match `containerPort` when `hostNetwork` is true";
                errors.push(field::invalid(&port.path.child("hostPort"), &host, why));
            }
        }
    }
}

fn dns(spec: &Node<'_>, errors: &mut ErrorList) {
    let config = spec.get("dnsConfig");
    if spec.str("dnsPolicy") == "None" {
        if config.value.is_null() {
            errors.push(field::required(&config.path, "must provide `dnsConfig` when `dnsPolicy` is None"));
            return;
        }
        if config.is_empty("nameservers") {
            config.required_as(
                "nameservers",
                "must provide at least one DNS nameserver when `dnsPolicy` is None",
                errors,
            );
            return;
        }
    }
    let servers = config.list("nameservers");
    if servers.len() > MAX_NAMESERVERS {
        config.invalid("nameservers", format!("must not have more than {MAX_NAMESERVERS} nameservers"), errors);
    }
    for server in servers {
        errors.extend(ip::address(&server.path, server.text()));
    }
    let searches = config.list("searches");
    if searches.len() > MAX_SEARCHES {
        config.invalid("searches", format!("must not have more than {MAX_SEARCHES} search paths"), errors);
    }
    let characters = searches.iter().map(|s| s.text().len() + 1).sum::<usize>().saturating_sub(1);
    if characters > MAX_SEARCH_CHARACTERS {
        let why =
            format!("must not have more than {MAX_SEARCH_CHARACTERS} characters (including spaces) in the search list");
        config.invalid("searches", why, errors);
    }
    for search in searches.iter().filter(|s| s.text() != ".") {
        let text = search.text().strip_suffix('.').unwrap_or(search.text());
        errors.extend(
            names::is_dns1123_subdomain_with_underscore(text)
                .into_iter()
                .map(|m| field::invalid(&search.path, text, m)),
        );
    }
    for option in config.list("options") {
        if option.is_empty("name") {
            errors.push(field::required(&option.path, "must not be empty"));
        }
    }
}

fn scheduling_gates(spec: &Node<'_>, errors: &mut ErrorList) {
    let mut seen = Vec::new();
    for gate in spec.list("schedulingGates") {
        let name = gate.str("name");
        errors.extend(names::is_qualified_name(name).into_iter().map(|m| field::invalid(&gate.path, name, m)));
        if seen.contains(&name) {
            errors.push(field::duplicate(&gate.path, name));
        }
        seen.push(name);
    }
}

fn host_users(spec: &Node<'_>, errors: &mut ErrorList) {
    if !spec.has("hostUsers") || spec.flag("hostUsers") {
        return;
    }
    for (key, said) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.flag(key) {
            errors.push(field::forbidden(&spec.path.child(said), "when `hostUsers` is false"));
        }
    }
    for container in shared::containers(spec) {
        if !container.is_empty("volumeDevices") {
            errors.push(field::forbidden(&container.path.child("volumeDevices"), "when `hostUsers` is false"));
        }
    }
}

fn host_name(spec: &Node<'_>, errors: &mut ErrorList) {
    let Some(name) = spec.given("hostnameOverride") else { return };
    for key in ["setHostnameAsFQDN", "hostNetwork"] {
        if spec.flag(key) {
            errors.push(field::forbidden(&name.path, format!("may not be specified when {key} is true")));
        }
    }
    if name.text().len() > 64 {
        errors.push(field::too_long(&name.path, 64));
    }
    name.is_named(names::is_dns1123_subdomain, errors);
}
