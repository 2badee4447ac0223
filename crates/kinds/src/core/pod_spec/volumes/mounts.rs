//! What is wrong with how a container mounts volumes.

use std::collections::HashMap;

use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::path::Path;

use crate::check::Node;
use crate::core::pod_spec::paths::local_path;

pub(in crate::core::pod_spec) fn mounts(container: &Node<'_>, volumes: &HashMap<&str, &Value>, errors: &mut ErrorList) {
    let devices = container.list("volumeDevices");
    let list = container.path.child("volumeMounts");
    let mut seen = Vec::new();
    for mount in container.list("volumeMounts") {
        let (name, path) = (mount.str("name"), mount.str("mountPath"));
        mount.required("name", errors);
        if !volumes.contains_key(name) {
            errors.push(field::not_found(&mount.path.child("name"), name));
        }
        mount.required("mountPath", errors);
        if seen.contains(&path) {
            errors.push(field::invalid(&mount.path.child("mountPath"), path, "must be unique"));
        }
        seen.push(path);
        if devices.iter().any(|d| d.str("name") == name) {
            errors.push(field::invalid(&mount.path.child("name"), name, "must not already exist in volumeDevices"));
        }
        if devices.iter().any(|d| d.str("devicePath") == path) {
            let why = "must not already exist as a path in volumeDevices";
            errors.push(field::invalid(&mount.path.child("mountPath"), path, why));
        }
        local_path(mount.str("subPath"), &list.child("subPath"), errors);
        if !mount.is_empty("subPathExpr") {
            if !mount.is_empty("subPath") {
                mount.invalid("subPathExpr", "subPathExpr and subPath are mutually exclusive", errors);
            }
            local_path(mount.str("subPathExpr"), &list.child("subPathExpr"), errors);
        }
        propagation(&mount, container, &list, errors);
    }
}

fn propagation(mount: &Node<'_>, container: &Node<'_>, list: &Path, errors: &mut ErrorList) {
    const KINDS: [&str; 3] = ["Bidirectional", "HostToContainer", "None"];
    let mode = mount.given("mountPropagation").map(|m| m.text());
    if let Some(mode) = mode {
        let at = list.child("mountPropagation");
        if !KINDS.contains(&mode) {
            errors.push(field::not_supported(&at, &mode, KINDS));
        }
        if mode == "Bidirectional" && !container.get("securityContext").flag("privileged") {
            errors.push(field::forbidden(
                &at,
                "Bidirectional mount propagation is available only to privileged containers",
            ));
        }
    }
    let at = list.child("recursiveReadOnly");
    match mount.given("recursiveReadOnly").map(|m| m.text()) {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if !mount.flag("readOnly") {
                errors.push(field::forbidden(&at, "may only be specified when readOnly is true"));
            }
            if mode.is_some_and(|m| m != "None") {
                errors.push(field::forbidden(
                    &at,
                    "may only be specified when mountPropagation is None or not specified",
                ));
            }
        }
        Some(other) => errors.push(field::not_supported(&at, &other, ["Disabled", "Enabled", "IfPossible"])),
    }
}

pub(in crate::core::pod_spec) fn devices(
    container: &Node<'_>,
    volumes: &HashMap<&str, &Value>,
    errors: &mut ErrorList,
) {
    let mounts = container.list("volumeMounts");
    let (mut names_seen, mut paths_seen) = (Vec::new(), Vec::new());
    for device in container.list("volumeDevices") {
        let (name, path) = (device.str("name"), device.str("devicePath"));
        let (at_name, at_path) = (device.path.child("name"), device.path.child("devicePath"));
        device.required("name", errors);
        if names_seen.contains(&name) {
            errors.push(field::invalid(&at_name, name, "must be unique"));
        }
        match volumes.get(name) {
            None => errors.push(field::not_found(&at_name, name)),
            Some(volume) if volume.get("persistentVolumeClaim").is_none() && volume.get("ephemeral").is_none() => {
                let why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.push(field::invalid(&at_name, name, why));
            }
            Some(_) => {}
        }
        device.required("devicePath", errors);
        if paths_seen.contains(&path) {
            errors.push(field::invalid(&at_path, path, "must be unique"));
        }
        if path.split('/').any(|part| part == "..") {
            errors.push(field::invalid(&at_path, path, "can not contain backsteps ('..')"));
        } else {
            paths_seen.push(path);
        }
        if mounts.iter().any(|m| m.str("name") == name) {
            errors.push(field::invalid(&at_name, name, "must not already exist in volumeMounts"));
        }
        if mounts.iter().any(|m| m.str("mountPath") == path) {
            errors.push(field::invalid(&at_path, path, "must not already exist as a path in volumeMounts"));
        }
        if !name.is_empty() {
            names_seen.push(name);
        }
    }
}
