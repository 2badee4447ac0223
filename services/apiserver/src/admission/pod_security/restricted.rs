//! What a Pod must do to be hardened.

use std::collections::BTreeSet;

use serde_json::Value;

use super::baseline::{any_proc_mount, confines};
use super::standard::{Pod, Violation};
use super::words::{bad_field, containers, named, plural, quoted, setters, text};
use crate::admission::pod::{self, items};

pub(super) fn privilege_escalation(pod: &Pod<'_>) -> Option<Violation> {
    if !pod.since(8) || (pod.since(25) && pod.is_windows()) {
        return None;
    }
    let names = named(pod.spec, |container| container["securityContext"]["allowPrivilegeEscalation"] != false);
    if names.is_empty() {
        return None;
    }
    let detail = format!("{} must set securityContext.allowPrivilegeEscalation=false", containers(&names));
    Violation::new("allowPrivilegeEscalation != false", detail)
}

pub(super) fn capabilities(pod: &Pod<'_>) -> Option<Violation> {
    if !pod.since(22) || (pod.since(25) && pod.is_windows()) {
        return None;
    }
    let of = |container: &Value, list: &str| -> Vec<String> {
        items(&container["securityContext"]["capabilities"][list])
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    };
    let keeping = named(pod.spec, |container| !of(container, "drop").iter().any(|capability| capability == "ALL"));
    let mut bad = BTreeSet::new();
    let adding = named(pod.spec, |container| {
        let forbidden: Vec<String> = of(container, "add").into_iter().filter(|c| c != "NET_BIND_SERVICE").collect();
        let any = !forbidden.is_empty();
        bad.extend(forbidden);
        any
    });
    let mut details = Vec::new();
    if !keeping.is_empty() {
        details.push(format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", containers(&keeping)));
    }
    if !adding.is_empty() {
        details.push(format!(
            "{} must not include {} in securityContext.capabilities.add",
            containers(&adding),
            quoted(bad)
        ));
    }
    if details.is_empty() { None } else { Violation::new("unrestricted capabilities", details.join("; ")) }
}

pub(super) fn proc_mount(pod: &Pod<'_>) -> Option<Violation> {
    any_proc_mount(pod)
}

const ALLOWED_VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

pub(super) fn volumes(pod: &Pod<'_>) -> Option<Violation> {
    let source = |volume: &Value| {
        let fields = volume.as_object().into_iter().flatten();
        fields.into_iter().find(|(key, value)| key.as_str() != "name" && value.is_object()).map(|(key, _)| key.clone())
    };
    let (mut names, mut types) = (Vec::new(), BTreeSet::new());
    for volume in items(&pod.spec["volumes"]) {
        let source = source(volume).unwrap_or_else(|| "unknown".to_owned());
        if !ALLOWED_VOLUMES.contains(&source.as_str()) {
            names.push(pod::text(volume, "name"));
            types.insert(source);
        }
    }
    if names.is_empty() {
        return None;
    }
    let detail = format!(
        "{} {} {} {} {}",
        plural(names.len(), "volume", "volumes"),
        quoted(&names),
        plural(names.len(), "uses", "use"),
        plural(types.len(), "restricted volume type", "restricted volume types"),
        quoted(types),
    );
    Violation::new("restricted volume types", detail)
}

pub(super) fn run_as_non_root(pod: &Pod<'_>) -> Option<Violation> {
    if pod.since(35) && pod.has_own_users() {
        return None;
    }
    let of = |holder: &Value| holder["securityContext"]["runAsNonRoot"].as_bool();
    let on_pod = of(pod.spec);
    let roots = named(pod.spec, |container| of(container) == Some(false));
    if let Some(who) = setters(on_pod == Some(false), &roots) {
        return Violation::new(
            "runAsNonRoot != true",
            format!("{who} must not set securityContext.runAsNonRoot=false"),
        );
    }
    let silent = named(pod.spec, |container| of(container).is_none() && on_pod != Some(true));
    if silent.is_empty() {
        return None;
    }
    let detail = format!("pod or {} must set securityContext.runAsNonRoot=true", containers(&silent));
    Violation::new("runAsNonRoot != true", detail)
}

pub(super) fn run_as_user(pod: &Pod<'_>) -> Option<Violation> {
    if !pod.since(23) || (pod.since(35) && pod.has_own_users()) {
        return None;
    }
    let root = |holder: &Value| holder["securityContext"]["runAsUser"] == 0;
    let who = setters(root(pod.spec), &named(pod.spec, root))?;
    Violation::new("runAsUser=0", format!("{who} must not set runAsUser=0"))
}

pub(super) fn seccomp(pod: &Pod<'_>) -> Option<Violation> {
    if !pod.since(19) || (pod.since(25) && pod.is_windows()) {
        return None;
    }
    let (on_pod, names, values) = bad_field(pod.spec, "/seccompProfile/type", confines, text);
    if let Some(who) = setters(on_pod, &names) {
        let detail = format!("{who} must not set securityContext.seccompProfile.type to {}", quoted(values));
        return Violation::new("seccompProfile", detail);
    }
    let set = |holder: &Value| holder["securityContext"]["seccompProfile"].is_object();
    let on_pod = set(pod.spec);
    let silent = named(pod.spec, |container| !set(container) && !on_pod);
    if silent.is_empty() {
        return None;
    }
    let detail = format!(
        "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
        containers(&silent)
    );
    Violation::new("seccompProfile", detail)
}
