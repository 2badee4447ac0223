//! What is wrong with the source of a PersistentVolume.

use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::names;

use super::iscsi::{TOO_LONG_PORTAL, iscsi};
use super::storage::{csi_driver, shared};
use super::types::{ONE_TYPE, TYPES};
use crate::check::Node;
use crate::core::pod_spec::paths::no_backsteps;

/// Of the sources of a PersistentVolume, of which it has one. `name` is the volume's.
pub(crate) fn persistent_sources(spec: &Node<'_>, name: &str, has_affinity: bool, errors: &mut ErrorList) {
    let mut found = false;
    for (key, said, too_many) in TYPES {
        let Some(source) = spec.given(key) else { continue };
        if found && key != "flexVolume" {
            errors.push(field::forbidden(&spec.path.child(too_many), ONE_TYPE));
            continue;
        }
        found = true;
        let source = Node { value: source.value, path: spec.path.child(said) };
        of_volume(key, &source, name, errors);
        if key == "local" && !has_affinity {
            errors.push(field::required(&spec.path.child("nodeAffinity"), "Local volume requires node affinity"));
        }
    }
    if !found {
        errors.push(field::required(&spec.path, "must specify a volume type"));
    }
}

fn of_volume(key: &str, source: &Node<'_>, name: &str, errors: &mut ErrorList) {
    match key {
        "glusterfs" => {
            shared(key, source, errors);
            if let Some(namespace) = source.given("endpointsNamespace") {
                if namespace.text().is_empty() {
                    let why = "if the endpointnamespace is set, it must be a valid namespace name";
                    errors.push(field::invalid(&namespace.path, "", why));
                } else {
                    namespace.is_named(names::is_dns1123_label, errors);
                }
            }
        }
        "iscsi" => {
            let total = name.len() + 1 + source.str("targetPortal").len();
            if source.has("initiatorName") && total > 64 {
                errors.push(field::invalid(
                    &source.path.child("targetportal"),
                    source.str("targetPortal"),
                    TOO_LONG_PORTAL,
                ));
            }
            iscsi(source, "must be valid format", errors);
            if let Some(secret) = source.given("secretRef") {
                secret.required("name", errors);
            }
        }
        "cinder" | "storageos" => {
            shared(key, source, errors);
            if let Some(secret) = source.given("secretRef") {
                secret.required("namespace", errors);
            }
        }
        "azureFile" => {
            shared(key, source, errors);
            if source.has("secretNamespace") {
                source.required("secretNamespace", errors);
            }
        }
        "local" => {
            if source.required("path", errors) {
                no_backsteps(source.str("path"), &source.path.child("path"), errors);
            }
        }
        "csi" => {
            csi_driver(source.str("driver"), &source.path.child("driver"), errors);
            source.required("volumeHandle", errors);
            for key in [
                "controllerPublishSecretRef",
                "controllerExpandSecretRef",
                "nodePublishSecretRef",
                "nodeExpandSecretRef",
            ] {
                if let Some(secret) = source.given(key) {
                    secret.required_name("name", names::is_dns1123_subdomain, errors);
                    secret.required_name("namespace", names::is_dns1123_label, errors);
                }
            }
        }
        key => shared(key, source, errors),
    }
}
