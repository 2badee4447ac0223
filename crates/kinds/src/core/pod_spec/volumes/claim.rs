//! What is wrong with claims, those of an ephemeral volume among them.

use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::names;

use crate::check::{Node, POSITIVE};
use crate::core::pod_spec::resources::quantity_value;
use crate::metadata;

pub(super) fn ephemeral(source: &Node<'_>, volume: &Node<'_>, pod: Option<&str>, errors: &mut ErrorList) {
    match source.given("volumeClaimTemplate") {
        None => errors.push(field::required(&source.path.child("volumeClaimTemplate"), "")),
        Some(template) => {
            let metadata = template.get("metadata");
            errors
                .extend(metadata::annotations(metadata.get("annotations").value, &metadata.path.child("annotations")));
            errors.extend(metadata::labels(metadata.get("labels").value, &metadata.path.child("labels")));
            for key in metadata.value.as_object().into_iter().flatten().map(|(k, _)| k) {
                if !matches!(key.as_str(), "labels" | "annotations") {
                    metadata.forbidden(key, "cannot be set", errors);
                }
            }
            claim_spec(&template.get("spec"), errors);
        }
    }
    let name = volume.str("name");
    if let Some(pod) = pod.filter(|_| !name.is_empty()) {
        let claim = format!("{pod}-{name}");
        for wrong in names::is_dns1123_subdomain(&claim) {
            volume.invalid("name", format!("PVC name {claim:?}: {wrong}"), errors);
        }
    }
}

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// Of access modes.
pub(crate) fn access_modes(spec: &Node<'_>, why: &str, errors: &mut ErrorList) {
    spec.required_as("accessModes", why, errors);
    let modes: Vec<&str> = spec.list("accessModes").iter().map(Node::text).collect();
    let at = spec.path.child("accessModes");
    for mode in modes.iter().filter(|m| !ACCESS_MODES.contains(m)) {
        errors.push(field::not_supported(&at, mode, ACCESS_MODES));
    }
    let pod = modes.contains(&"ReadWriteOncePod");
    if pod && modes.iter().any(|m| *m != "ReadWriteOncePod" && ACCESS_MODES.contains(m)) {
        errors.push(field::forbidden(&at, "may not use ReadWriteOncePod with other access modes"));
    }
}

/// Of the spec of a claim.
pub(crate) fn claim_spec(spec: &Node<'_>, errors: &mut ErrorList) {
    access_modes(spec, "at least 1 access mode is required", errors);
    spec.selector("selector", errors);
    let at = spec.path.child("resources").key("storage");
    match spec.get("resources").get("requests").given("storage") {
        None => errors.push(field::required(&at, "")),
        Some(storage) => {
            let storage = Node { value: storage.value, path: at };
            if storage.quantity().is_some_and(|q| q.is_zero() || q.is_negative()) {
                errors.push(field::invalid(&storage.path, storage.text(), POSITIVE));
            } else {
                quantity_value("storage", &storage, errors);
            }
        }
    }
    for key in ["storageClassName", "volumeAttributesClassName"] {
        if !spec.is_empty(key) {
            spec.named(key, names::is_dns1123_subdomain, errors);
        }
    }
    spec.one_of("volumeMode", &["Block", "Filesystem"], errors);
    for key in ["dataSource", "dataSourceRef"] {
        if let Some(source) = spec.given(key) {
            data_source(&source, errors);
        }
    }
    let (source, reference) = (spec.get("dataSource"), spec.get("dataSourceRef"));
    if source.value.is_null() || reference.value.is_null() {
        return;
    }
    let said = serde_json::json!({});
    if !reference.is_empty("namespace") {
        errors.push(field::invalid(
            &spec.path,
            &said,
            "may not be specified when dataSourceRef.namespace is specified",
        ));
    } else if ["name", "kind", "apiGroup"].iter().any(|k| source.get(k).value != reference.get(k).value) {
        errors.push(field::invalid(&spec.path, &said, "must match dataSourceRef"));
    }
}

fn data_source(source: &Node<'_>, errors: &mut ErrorList) {
    source.required("name", errors);
    source.required("kind", errors);
    if source.is_empty("apiGroup") {
        if source.str("kind") != "PersistentVolumeClaim" {
            let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            errors.push(field::invalid(&source.path, source.str("kind"), why));
        }
    } else {
        source.named("apiGroup", names::is_dns1123_subdomain, errors);
    }
    if !source.is_empty("namespace") {
        source.named("namespace", names::is_dns1123_label, errors);
    }
}
