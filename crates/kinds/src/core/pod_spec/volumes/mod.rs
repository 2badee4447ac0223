//! What is wrong with volumes: where they come from, and how containers mount them.
//!
//! | module | concern |
//! |---|---|
//! | here | the volumes of a Pod |
//! | [`persistent`] | the source of a PersistentVolume |
//! | [`storage`], [`iscsi`] | storage that both can come from |
//! | [`projected`] | what the kubelet writes itself |
//! | [`claim`] | claims |
//! | [`mounts`] | where a container sees them |
//! | [`types`] | the types of volumes |

mod claim;
mod iscsi;
mod mounts;
mod persistent;
mod projected;
mod storage;
mod types;

use std::collections::HashMap;

use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::names;

pub(crate) use claim::{access_modes, claim_spec};
pub(super) use mounts::{devices, mounts};
pub(crate) use persistent::persistent_sources;
pub(crate) use projected::signer_name;

use super::paths::local_path;
use crate::check::Node;
use claim::ephemeral;
use iscsi::{TOO_LONG_PORTAL, iscsi};
use projected::{downward_file, keys_to_paths, projections};
use storage::{csi_driver, shared};
use types::{ONE_TYPE, TYPES};

/// Answers the volumes that are valid, by name.
pub(super) fn validate<'a>(spec: &Node<'a>, pod: Option<&str>, errors: &mut ErrorList) -> HashMap<&'a str, &'a Value> {
    let volumes = spec.list("volumes");
    let pod = pod.filter(|name| !name.is_empty());
    let created: Vec<String> = match pod {
        Some(pod) => {
            volumes.iter().filter(|v| v.has("ephemeral")).map(|v| format!("{pod}-{}", v.str("name"))).collect()
        }
        None => Vec::new(),
    };
    let mut valid = HashMap::new();
    for volume in &volumes {
        let mut own = sources(volume, pod);
        let name = volume.str("name");
        volume.required_name("name", names::is_dns1123_label, &mut own);
        if valid.contains_key(name) {
            own.push(field::duplicate(&volume.path.child("name"), name));
        }
        if own.is_empty() {
            valid.insert(name, volume.value);
        } else {
            errors.extend(own);
        }
        let claim = volume.get("persistentVolumeClaim");
        if created.iter().any(|c| c == claim.str("claimName")) {
            claim.invalid("claimName", "must not reference a PVC that gets created for an ephemeral volume", errors);
        }
    }
    valid
}

/// Of the sources of a Pod's volume, of which it has one.
fn sources(volume: &Node<'_>, pod: Option<&str>) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut found = false;
    if let Some(dir) = volume.given("emptyDir") {
        found = true;
        if dir.get("sizeLimit").quantity().is_some_and(|q| q.is_negative()) {
            errors.push(field::forbidden(
                &dir.path.child("sizeLimit"),
                "SizeLimit field must be a valid resource quantity",
            ));
        }
        if let Some(mode) = dir.opt_int("mode").filter(|m| !(0..=0o1777).contains(m)) {
            errors.push(field::invalid(
                &dir.path.child("mode"),
                &mode,
                "must be a number between 0 and 01777 (octal), both inclusive",
            ));
        }
    }
    for (key, said, too_many) in TYPES {
        let Some(source) = volume.given(key) else { continue };
        if found {
            errors.push(field::forbidden(&volume.path.child(too_many), ONE_TYPE));
            continue;
        }
        found = true;
        let source = Node { value: source.value, path: volume.path.child(said) };
        of_pod(key, &source, volume, pod, &mut errors);
    }
    if !found {
        errors.push(field::required(&volume.path, "must specify a volume type"));
    }
    errors
}

fn of_pod(key: &str, source: &Node<'_>, volume: &Node<'_>, pod: Option<&str>, errors: &mut ErrorList) {
    match key {
        "gitRepo" => {
            source.required("repository", errors);
            local_path(source.str("directory"), &source.path.child("directory"), errors);
        }
        "secret" => {
            source.required("secretName", errors);
            keys_to_paths(source, errors);
        }
        "configMap" => {
            source.required("name", errors);
            keys_to_paths(source, errors);
        }
        "persistentVolumeClaim" => {
            source.required("claimName", errors);
        }
        "iscsi" => {
            iscsi(source, "must be valid format starting with iqn, eui, or naa", errors);
            let total = volume.str("name").len() + 1 + source.str("targetPortal").len();
            if source.has("initiatorName") && total > 64 {
                volume.invalid("name", TOO_LONG_PORTAL, errors);
            }
        }
        "downwardAPI" => {
            source.file_mode("defaultMode", errors);
            for file in source.list("items") {
                downward_file(&file, &source.path, errors);
            }
        }
        "projected" => {
            source.file_mode("defaultMode", errors);
            projections(source, errors);
        }
        "csi" => {
            csi_driver(source.str("driver"), &source.path.child("driver"), errors);
            if let Some(secret) = source.given("nodePublishSecretRef")
                && secret.required("name", errors)
            {
                let name = secret.str("name");
                let at = source.path.child("name");
                errors.extend(names::is_dns1123_subdomain(name).into_iter().map(|m| field::invalid(&at, name, m)));
            }
        }
        "ephemeral" => ephemeral(source, volume, pod, errors),
        "image" => {
            source.required("reference", errors);
            source.one_of("pullPolicy", &["Always", "IfNotPresent", "Never"], errors);
        }
        "local" => {}
        key => shared(key, source, errors),
    }
}
