//! What is wrong with the sources that a Pod's volume and a PersistentVolume have alike.

use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::names;
use trireme_machinery::path::Path;

use crate::check::Node;
use crate::core::pod_spec::paths::no_backsteps;

/// Sources that a Pod's volume and a PersistentVolume have alike.
pub(super) fn shared(key: &str, source: &Node<'_>, errors: &mut ErrorList) {
    let mut all = |keys: &[&str]| {
        for key in keys {
            source.required(key, errors);
        }
    };
    match key {
        "hostPath" => host_path(source, errors),
        "gcePersistentDisk" | "awsElasticBlockStore" => {
            all(if key == "gcePersistentDisk" { &["pdName"] } else { &["volumeID"] });
            if let Some(partition) = source.opt_int("partition").filter(|p| !(0..=255).contains(p)) {
                errors.push(field::invalid(&source.path.child("partition"), &partition, names::range_error(1, 255)));
            }
        }
        "nfs" => {
            all(&["server", "path"]);
            if !source.str("path").starts_with('/') {
                errors.push(field::invalid(&source.path.child("path"), source.str("path"), "must be an absolute path"));
            }
        }
        "glusterfs" => all(&["endpoints", "path"]),
        "flocker" => flocker(source, errors),
        "rbd" => all(&["monitors", "image"]),
        "cephfs" => all(&["monitors"]),
        "cinder" => {
            all(&["volumeID"]);
            if let Some(secret) = source.given("secretRef") {
                secret.required("name", errors);
            }
        }
        "quobyte" => quobyte(source, errors),
        "fc" => fibre_channel(source, errors),
        "flexVolume" => {
            all(&["driver"]);
            for (option, node) in source.entries("options") {
                let namespace = format!(".{}", option.split('/').next().unwrap_or(option).to_lowercase());
                if namespace.ends_with(".kubernetes.io") || namespace.ends_with(".k8s.io") {
                    errors.push(field::invalid(&node.path, option, "kubernetes.io and k8s.io namespaces are reserved"));
                }
            }
        }
        "azureFile" => all(&["secretName", "shareName"]),
        "vsphereVolume" => all(&["volumePath"]),
        "photonPersistentDisk" => all(&["pdID"]),
        "portworxVolume" => all(&["volumeID"]),
        "azureDisk" => azure_disk(source, errors),
        "storageos" => {
            source.required_name("volumeName", names::is_dns1123_label, errors);
            if !source.is_empty("volumeNamespace") {
                source.named("volumeNamespace", names::is_dns1123_label, errors);
            }
            if let Some(secret) = source.given("secretRef") {
                secret.required("name", errors);
            }
        }
        "scaleIO" => all(&["gateway", "system", "volumeName"]),
        _ => {}
    }
}

const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

fn host_path(source: &Node<'_>, errors: &mut ErrorList) {
    if source.required("path", errors) {
        no_backsteps(source.str("path"), &source.path.child("path"), errors);
        source.one_of("type", &HOST_PATH_TYPES, errors);
    }
}

fn flocker(source: &Node<'_>, errors: &mut ErrorList) {
    match (source.is_empty("datasetName"), source.is_empty("datasetUUID")) {
        (true, true) => errors.push(field::required(&source.path, "one of datasetName and datasetUUID is required")),
        (false, false) => {
            errors.push(field::invalid(
                &source.path,
                "resource",
                "datasetName and datasetUUID can not be specified simultaneously",
            ));
        }
        _ => {}
    }
    if source.str("datasetName").contains('/') {
        source.invalid("datasetName", "must not contain '/'", errors);
    }
}

fn quobyte(source: &Node<'_>, errors: &mut ErrorList) {
    let pairs = "must be a host:port pair or multiple pairs separated by commas";
    if source.required_as("registry", pairs, errors) {
        if source.str("tenant").len() >= 65 {
            errors.push(field::required(
                &source.path.child("tenant"),
                "must be a UUID and may not exceed a length of 64 characters",
            ));
        } else {
            for pair in source.str("registry").split(',') {
                let port = pair.rsplit_once(':');
                let bracketed = pair.starts_with('[') && pair.contains("]:");
                if port.is_none_or(|(host, _)| host.contains(':') && !bracketed) {
                    source.invalid("registry", pairs, errors);
                }
            }
        }
    }
    source.required("volume", errors);
}

fn fibre_channel(source: &Node<'_>, errors: &mut ErrorList) {
    let (targets, wwids) = (!source.is_empty("targetWWNs"), !source.is_empty("wwids"));
    if !targets && !wwids {
        errors.push(field::required(
            &source.path.child("targetWWNs"),
            "must specify either targetWWNs or wwids, but not both",
        ));
    }
    if targets && wwids {
        source.invalid("targetWWNs", "targetWWNs and wwids can not be specified simultaneously", errors);
    }
    if targets {
        if source.has("lun") {
            source.within("lun", 0, 255, errors);
        } else {
            errors.push(field::required(&source.path.child("lun"), "lun is required if targetWWNs is specified"));
        }
    }
}

fn azure_disk(source: &Node<'_>, errors: &mut ErrorList) {
    source.required("diskName", errors);
    source.required("diskURI", errors);
    source.one_of("cachingMode", &["None", "ReadOnly", "ReadWrite"], errors);
    source.one_of("kind", &["Dedicated", "Managed", "Shared"], errors);
    let uri = source.str("diskURI");
    if source.has("kind") {
        let managed = source.str("kind") == "Managed";
        let (prefix, form) = if managed {
            (
                "/subscriptions/",
                "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
            )
        } else {
            ("https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd")
        };
        if !uri.starts_with(prefix) {
            errors.push(field::not_supported(&source.path.child("diskURI"), &uri, [form]));
        }
    }
}

/// Of the name of a storage driver.
pub(super) fn csi_driver(driver: &str, at: &Path, errors: &mut ErrorList) {
    if driver.is_empty() {
        errors.push(field::required(at, ""));
        return;
    }
    if driver.len() > 63 {
        errors.push(field::too_long(at, 63));
    }
    errors
        .extend(names::is_dns1123_subdomain(&driver.to_lowercase()).into_iter().map(|m| field::invalid(at, driver, m)));
}
