//! What is wrong with the environment of a container.

use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::names;
use trireme_machinery::path::Path;

use super::paths::no_backsteps;
use super::shared::containers;
use crate::check::Node;

/// What an environment variable may name of its Pod.
const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// What a file of a volume may name of its Pod.
pub(super) const VOLUME_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
/// What both may name of a container.
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const SOURCES: [&str; 5] = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];

pub(super) fn validate(container: &Node<'_>, errors: &mut ErrorList) {
    for variable in container.list("env") {
        variable.required_name("name", names::is_env_var_name, errors);
        if let Some(from) = variable.given("valueFrom") {
            value_from(&from, !variable.is_empty("value"), errors);
        }
    }
    for source in container.list("envFrom") {
        if !source.is_empty("prefix") {
            source.named("prefix", names::is_env_var_name, errors);
        }
        let mut sources = 0;
        for key in ["configMapRef", "secretRef"] {
            if let Some(reference) = source.given(key) {
                sources += 1;
                reference.required_name("name", names::is_dns1123_subdomain, errors);
            }
        }
        let at = container.path.child("envFrom");
        match sources {
            0 => errors.push(field::invalid(&at, "", "must specify one of: `configMapRef` or `secretRef`")),
            1 => {}
            _ => errors.push(field::invalid(&at, "", "may not have more than one field specified at a time")),
        }
    }
}

fn value_from(from: &Node<'_>, has_value: bool, errors: &mut ErrorList) {
    if let Some(reference) = from.given("fieldRef") {
        field_ref(&reference, &FIELDS, errors);
    }
    if let Some(reference) = from.given("resourceFieldRef") {
        resource_ref(&reference, false, errors);
    }
    for key in ["configMapKeyRef", "secretKeyRef"] {
        if let Some(reference) = from.given(key) {
            reference.named("name", names::is_dns1123_subdomain, errors);
            reference.required_name("key", names::is_config_map_key, errors);
        }
    }
    if let Some(reference) = from.given("fileKeyRef") {
        reference.required_name("key", names::is_env_var_name, errors);
        reference.required_name("volumeName", names::is_dns1123_label, errors);
        if reference.required("path", errors) {
            no_backsteps(reference.str("path"), &reference.path.child("path"), errors);
        }
    }
    match SOURCES.iter().filter(|s| from.has(s)).count() {
        0 => {
            let why = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
            errors.push(field::invalid(&from.path, "", why));
        }
        _ if has_value => errors.push(field::invalid(&from.path, "", "may not be specified when `value` is not empty")),
        1 => {}
        _ => errors.push(field::invalid(&from.path, "", "may not have more than one field specified at a time")),
    }
}

/// A reference to a field of the Pod, of which some may be named.
pub(super) fn field_ref(reference: &Node<'_>, fields: &[&str], errors: &mut ErrorList) {
    if !reference.required("apiVersion", errors) || !reference.required("fieldPath", errors) {
        return;
    }
    let path = reference.str("fieldPath");
    if reference.str("apiVersion") != "v1" {
        let why = format!("error converting fieldPath: unsupported pod version: {}", reference.str("apiVersion"));
        reference.invalid("fieldPath", why, errors);
        return;
    }
    if let Some((name, subscript)) = subscripted(path) {
        match name {
            "metadata.annotations" => qualified(&subscript.to_lowercase(), &reference.path, errors),
            "metadata.labels" => qualified(subscript, &reference.path, errors),
            _ => reference.invalid(
                "fieldPath",
                format!("error converting fieldPath: field label does not support subscript: {path}"),
                errors,
            ),
        }
        return;
    }
    let known = FIELDS.contains(&path)
        || VOLUME_FIELDS.contains(&path)
        || matches!(path, "spec.restartPolicy" | "spec.schedulerName" | "status.phase" | "spec.host");
    if !known {
        reference.invalid(
            "fieldPath",
            format!("error converting fieldPath: field label not supported: {path}"),
            errors,
        );
    } else if !fields.contains(&path) {
        errors.push(field::not_supported(&reference.path.child("fieldPath"), &path, fields));
    }
}

fn subscripted(path: &str) -> Option<(&str, &str)> {
    path.strip_suffix("']")?.split_once("['")
}

fn qualified(name: &str, at: &Path, errors: &mut ErrorList) {
    errors.extend(names::is_qualified_name(name).into_iter().map(|m| field::invalid(at, name, m)));
}

/// A reference to a resource of a container.
pub(super) fn resource_ref(reference: &Node<'_>, in_volume: bool, errors: &mut ErrorList) {
    let resource = reference.str("resource");
    let huge_pages = ["requests.hugepages-", "limits.hugepages-"].iter().any(|p| resource.starts_with(p));
    if in_volume && reference.is_empty("containerName") {
        reference.required("containerName", errors);
    } else if resource.is_empty() {
        reference.required("resource", errors);
    } else if !RESOURCES.contains(&resource) && !huge_pages {
        errors.push(field::not_supported(&reference.path.child("resource"), &resource, RESOURCES));
    }
    let divisor = reference.get("divisor");
    let Some(amount) = divisor.quantity().filter(|q| !q.is_zero()).map(|q| q.to_string()) else { return };
    let (supported, what): (&[&str], &str) = match resource {
        "limits.cpu" | "requests.cpu" => (&["1m", "1"], "cpu"),
        "limits.memory" | "requests.memory" => (&BYTES, "memory"),
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => (&BYTES, "local ephemeral storage"),
        _ if huge_pages => (&BYTES, "hugepages"),
        _ => return,
    };
    if !supported.contains(&amount.as_str()) {
        let list = if what == "cpu" { "1m and 1".to_owned() } else { BYTES.join(", ") };
        let why = format!("only divisor's values {list} are supported with the {what} resource");
        errors.push(field::invalid(&divisor.path, resource, why));
    }
}

const BYTES: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// Files that variables are read from lie in volumes of the Pod.
pub(super) fn file_key_volumes(spec: &Node<'_>, errors: &mut ErrorList) {
    let volumes = spec.list("volumes");
    for variable in containers(spec).iter().flat_map(|c| c.list("env")) {
        let Some(reference) = variable.get("valueFrom").given("fileKeyRef") else { continue };
        let name = reference.str("volumeName");
        match volumes.iter().rfind(|v| v.str("name") == name) {
            None => errors.push(field::not_found(&reference.path.child("volumeName"), name)),
            Some(volume) if !volume.has("emptyDir") => {
                errors.push(field::invalid(
                    &reference.path.child("volumeName"),
                    name,
                    "referenced volume must be of type emptyDir",
                ));
            }
            Some(_) => {}
        }
    }
}
