//! What is wrong with volumes that the kubelet writes: keys of ConfigMaps and Secrets, fields of the Pod, tokens, bundles
//! and certificates.

use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::names;
use trireme_machinery::path::Path;

use crate::check::Node;
use crate::core::pod_spec::env::{VOLUME_FIELDS, field_ref, resource_ref};
use crate::core::pod_spec::paths::own_path;

pub(super) fn keys_to_paths(source: &Node<'_>, errors: &mut ErrorList) {
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

pub(super) fn downward_file(file: &Node<'_>, at: &Path, errors: &mut ErrorList) {
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

pub(super) fn projections(projected: &Node<'_>, errors: &mut ErrorList) {
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
