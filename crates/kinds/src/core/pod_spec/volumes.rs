//! What is wrong with volumes: where they come from, and how containers mount them.

use std::collections::HashMap;

use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::names;
use trireme_machinery::path::Path;

use super::env::{VOLUME_FIELDS, field_ref, resource_ref};
use super::resources::quantity_value;
use crate::check::{Node, POSITIVE};
use crate::metadata;

const ONE_TYPE: &str = "may not specify more than 1 volume type";

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

/// The types of volumes in the order in which they are looked at; where the errors of one stand; and its own name when it
/// is one too many.
const TYPES: [(&str, &str, &str); 30] = [
    ("hostPath", "hostPath", "hostPath"),
    ("gitRepo", "gitRepo", "gitRepo"),
    ("gcePersistentDisk", "persistentDisk", "gcePersistentDisk"),
    ("awsElasticBlockStore", "awsElasticBlockStore", "awsElasticBlockStore"),
    ("secret", "secret", "secret"),
    ("nfs", "nfs", "nfs"),
    ("iscsi", "iscsi", "iscsi"),
    ("glusterfs", "glusterfs", "glusterfs"),
    ("flocker", "flocker", "flocker"),
    ("persistentVolumeClaim", "persistentVolumeClaim", "persistentVolumeClaim"),
    ("rbd", "rbd", "rbd"),
    ("cinder", "cinder", "cinder"),
    ("cephfs", "cephfs", "cephFS"),
    ("quobyte", "quobyte", "quobyte"),
    ("downwardAPI", "downwardAPI", "downwarAPI"),
    ("fc", "fc", "fc"),
    ("flexVolume", "flexVolume", "flexVolume"),
    ("configMap", "configMap", "configMap"),
    ("azureFile", "azureFile", "azureFile"),
    ("vsphereVolume", "vsphereVolume", "vsphereVolume"),
    ("photonPersistentDisk", "photonPersistentDisk", "photonPersistentDisk"),
    ("portworxVolume", "portworxVolume", "portworxVolume"),
    ("azureDisk", "azureDisk", "azureDisk"),
    ("storageos", "storageos", "storageos"),
    ("projected", "projected", "projected"),
    ("scaleIO", "scaleIO", "scaleIO"),
    ("csi", "csi", "csi"),
    ("ephemeral", "ephemeral", "ephemeral"),
    ("image", "image", "image"),
    ("local", "local", "local"),
];

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

fn host_path(source: &Node<'_>, errors: &mut ErrorList) {
    if source.required("path", errors) {
        no_backsteps(source.str("path"), &source.path.child("path"), errors);
        source.one_of("type", &HOST_PATH_TYPES, errors);
    }
}

/// Sources that a Pod's volume and a PersistentVolume have alike.
fn shared(key: &str, source: &Node<'_>, errors: &mut ErrorList) {
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
const TOO_LONG_PORTAL: &str = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";

fn iscsi(source: &Node<'_>, no_prefix: &str, errors: &mut ErrorList) {
    source.required("targetPortal", errors);
    if source.required("iqn", errors)
        && let Some(why) = qualified_name(source.str("iqn"), no_prefix)
    {
        source.invalid("iqn", why, errors);
    }
    source.within("lun", 0, 255, errors);
    if (source.flag("chapAuthDiscovery") || source.flag("chapAuthSession")) && !source.has("secretRef") {
        errors.push(field::required(&source.path.child("secretRef"), ""));
    }
    if let Some(initiator) = source.given("initiatorName")
        && let Some(why) = qualified_name(initiator.text(), no_prefix)
    {
        errors.push(field::invalid(&source.path.child("initiatorname"), initiator.text(), why));
    }
}

/// What is wrong with the name of an iSCSI node.
fn qualified_name<'a>(name: &str, no_prefix: &'a str) -> Option<&'a str> {
    let hex =
        |text: &str, lengths: &[usize]| lengths.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
    let valid = if let Some(rest) = name.strip_prefix("iqn") {
        is_iqn(rest)
    } else if let Some(rest) = name.strip_prefix("eui") {
        rest.strip_prefix('.').is_some_and(|d| hex(d, &[16]))
    } else if let Some(rest) = name.strip_prefix("naa") {
        rest.strip_prefix('.').is_some_and(|d| hex(d, &[16, 32]))
    } else {
        return Some(no_prefix);
    };
    (!valid).then_some("must be valid format")
}

/// `.2026-01.com.example:anything`
fn is_iqn(rest: &str) -> bool {
    let Some(rest) = rest.strip_prefix('.') else { return false };
    let Some((date, naming)) = rest.split_once('.') else { return false };
    let Some((year, month)) = date.split_once('-') else { return false };
    let digits = |text: &str, count| text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
    let authority = naming.split(':').next().unwrap_or_default();
    let labels_fine =
        authority.split('.').all(|l| !l.is_empty() && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'));
    digits(year, 4) && digits(month, 2) && labels_fine
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

fn keys_to_paths(source: &Node<'_>, errors: &mut ErrorList) {
    source.file_mode("defaultMode", errors);
    for item in source.list("items") {
        key_to_path(&item, errors);
    }
}

fn key_to_path(item: &Node<'_>, errors: &mut ErrorList) {
    item.required("key", errors);
    item.required("path", errors);
    own_path(item.str("path"), &item.path.child("path"), errors);
    item.file_mode("mode", errors);
}

fn downward_file(file: &Node<'_>, at: &Path, errors: &mut ErrorList) {
    let file = Node { value: file.value, path: at.clone() };
    file.required("path", errors);
    own_path(file.str("path"), &at.child("path"), errors);
    if let Some(reference) = file.given("fieldRef") {
        field_ref(&reference, &VOLUME_FIELDS, errors);
        if file.has("resourceFieldRef") {
            errors.push(field::invalid(
                at,
                "resource",
                "fieldRef and resourceFieldRef can not be specified simultaneously",
            ));
        }
    } else if let Some(reference) = file.given("resourceFieldRef") {
        resource_ref(&reference, true, errors);
    } else {
        errors.push(field::required(at, "one of fieldRef and resourceFieldRef is required"));
    }
    file.file_mode("mode", errors);
}

fn projections(projected: &Node<'_>, errors: &mut ErrorList) {
    let mut paths: Vec<String> = Vec::new();
    let mut once = |path: &str, said: &str, errors: &mut ErrorList| {
        if path.is_empty() {
            return;
        }
        if paths.iter().any(|p| p == path) {
            errors.push(field::invalid(&projected.path, said, "conflicting duplicate paths"));
        } else {
            paths.push(path.to_owned());
        }
    };
    for source in projected.list("sources") {
        let mut count = 0;
        for key in ["secret", "configMap"] {
            let Some(map) = source.given(key) else { continue };
            count += 1;
            map.required("name", errors);
            for item in map.list("items") {
                key_to_path(&item, errors);
                once(item.str("path"), map.str("name"), errors);
            }
        }
        if let Some(downward) = source.given("downwardAPI") {
            count += 1;
            for file in downward.list("items") {
                downward_file(&file, &downward.path, errors);
                once(file.str("path"), file.str("path"), errors);
            }
        }
        if let Some(token) = source.given("serviceAccountToken") {
            count += 1;
            match token.opt_int("expirationSeconds") {
                None => errors.push(field::required(&token.path.child("expirationSeconds"), "")),
                Some(seconds) if seconds < 600 => {
                    token.invalid("expirationSeconds", "may not specify a duration less than 10 minutes", errors);
                }
                Some(seconds) if seconds > 1 << 32 => {
                    token.invalid("expirationSeconds", "may not specify a duration larger than 2^32 seconds", errors);
                }
                Some(_) => {}
            }
            let at = projected.path.child("path");
            if token.is_empty("path") {
                errors.push(field::required(&at, ""));
            } else {
                own_path(token.str("path"), &at, errors);
            }
        }
        if let Some(bundle) = source.given("clusterTrustBundle") {
            count += 1;
            trust_bundle(&bundle, errors);
            once(bundle.str("path"), bundle.str("path"), errors);
        }
        if let Some(certificate) = source.given("podCertificate") {
            count += 1;
            pod_certificate(&certificate, errors);
            for key in ["credentialBundlePath", "keyPath", "certificateChainPath"] {
                once(certificate.str(key), certificate.str(key), errors);
            }
        }
        if count > 1 {
            errors.push(field::forbidden(&source.path, "may not specify more than 1 volume type per source"));
        }
    }
}

fn trust_bundle(bundle: &Node<'_>, errors: &mut ErrorList) {
    match (bundle.given("name"), bundle.given("signerName")) {
        (Some(_), Some(_)) => {
            errors.push(field::invalid(&bundle.path, bundle.value, "only one of name and signerName may be used"))
        }
        (Some(name), None) => {
            if name.text().is_empty() {
                errors.push(field::required(&name.path, "must be a valid object name"));
            }
            if bundle.has("labelSelector") {
                bundle.invalid("labelSelector", "labelSelector must be unset if name is specified", errors);
            }
        }
        (None, Some(signer)) => {
            if signer.text().is_empty() {
                errors.push(field::required(&signer.path, "must be a valid signer name"));
            }
            signer_name(&signer, errors);
            bundle.selector("labelSelector", errors);
        }
        (None, None) => errors.push(field::required(&bundle.path, "either name or signerName must be specified")),
    }
    bundle.required("path", errors);
    own_path(bundle.str("path"), &bundle.path.child("path"), errors);
}

fn pod_certificate(certificate: &Node<'_>, errors: &mut ErrorList) {
    const KEY_TYPES: [&str; 6] = ["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
    signer_name(&certificate.get("signerName"), errors);
    certificate.always_one_of("keyType", &KEY_TYPES, errors);
    if let Some(seconds) = certificate.opt_int("maxExpirationSeconds") {
        let own = certificate.str("signerName").starts_with("kubernetes.io/");
        let max = if own { 24 * 3600 } else { 91 * 24 * 3600 };
        if seconds < 3600 {
            certificate.invalid("maxExpirationSeconds", "if provided, maxExpirationSeconds must be >= 3600", errors);
        }
        if seconds > max {
            certificate.invalid(
                "maxExpirationSeconds",
                format!("if provided, maxExpirationSeconds must be <= {max}"),
                errors,
            );
        }
    }
    let keys = ["credentialBundlePath", "keyPath", "certificateChainPath"];
    for key in keys.iter().filter(|k| !certificate.is_empty(k)) {
        own_path(certificate.str(key), &certificate.path.child(key), errors);
    }
    if keys.iter().all(|key| certificate.is_empty(key)) {
        errors.push(field::required(
            &certificate.path,
            "specify at least one of credentialBundlePath, keyPath, and certificateChainPath",
        ));
    }
}

/// Of the name of a signer, as `example.com/signer-name`.
pub(crate) fn signer_name(signer: &Node<'_>, errors: &mut ErrorList) {
    let name = signer.text();
    if name.is_empty() {
        errors.push(field::required(&signer.path, ""));
        return;
    }
    let segments: Vec<&str> = name.split('/').collect();
    let [domain, path] = segments.as_slice() else {
        errors.push(field::invalid(
            &signer.path,
            name,
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        ));
        return;
    };
    errors.extend(
        names::is_dns1123_subdomain(domain)
            .into_iter()
            .map(|m| field::invalid(&signer.path, *domain, format!("validating label {domain:?}: {m}"))),
    );
    for part in path.split('.') {
        errors.extend(
            names::is_dns1123_subdomain(part)
                .into_iter()
                .map(|m| field::invalid(&signer.path, part, format!("validating label {part:?}: {m}"))),
        );
    }
    if !domain.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        errors.push(field::invalid(&signer.path, *domain, why));
    }
}

fn ephemeral(source: &Node<'_>, volume: &Node<'_>, pod: Option<&str>, errors: &mut ErrorList) {
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
            claim_spec(&template.get("spec"), ClaimOf::Template, errors);
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

/// Whose spec a claim's is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClaimOf {
    /// A PersistentVolumeClaim of its own.
    Object,
    /// A template in a Pod or a StatefulSet.
    Template,
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
pub(crate) fn claim_spec(spec: &Node<'_>, _of: ClaimOf, errors: &mut ErrorList) {
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

/// A relative path without steps back.
pub(super) fn local_path(path: &str, at: &Path, errors: &mut ErrorList) {
    if path.starts_with('/') {
        errors.push(field::invalid(at, path, "must be a relative path"));
    }
    no_backsteps(path, at, errors);
}

/// A path without steps back.
pub(super) fn no_backsteps(path: &str, at: &Path, errors: &mut ErrorList) {
    if path.split('/').any(|part| part == "..") {
        errors.push(field::invalid(at, path, "must not contain '..'"));
    }
}

/// A relative path that does not begin like what the kubelet keeps for itself.
fn own_path(path: &str, at: &Path, errors: &mut ErrorList) {
    local_path(path, at, errors);
    if path.starts_with("..") && !path.starts_with("../") {
        errors.push(field::invalid(at, path, "must not start with '..'"));
    }
}

pub(super) fn mounts(container: &Node<'_>, volumes: &HashMap<&str, &Value>, errors: &mut ErrorList) {
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

pub(super) fn devices(container: &Node<'_>, volumes: &HashMap<&str, &Value>, errors: &mut ErrorList) {
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
