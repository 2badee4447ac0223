//! The documents of old: one for each group and version.

use serde_json::{Map, Value, json};
use trireme_kinds::{Kind, Registry};

use super::groups::{self, Group};
use super::storage_version_hash;

/// `/api`.
pub(super) fn versions(address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// `/apis`.
pub(super) fn groups(registry: &Registry) -> Value {
    let groups: Vec<Value> =
        groups::served(registry).iter().filter(|g| !g.name.is_empty()).map(|g| group(g, false)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/<group>`, and the element of `/apis`.
pub(super) fn group(group: &Group, alone: bool) -> Value {
    let version = |v: &String| json!({"groupVersion": format!("{}/{v}", group.name), "version": v});
    let mut out = Map::new();
    if alone {
        out.insert("kind".into(), json!("APIGroup"));
        out.insert("apiVersion".into(), json!("v1"));
    }
    out.insert("name".into(), json!(group.name));
    out.insert("versions".into(), group.versions.iter().map(version).collect());
    if let Some(first) = group.versions.first() {
        out.insert("preferredVersion".into(), version(first));
    }
    Value::Object(out)
}

/// `/api/v1` and `/apis/<group>/<version>`.
pub(super) fn resources(registry: &Registry, group: &str, version: &str) -> Value {
    let mut resources: Vec<(String, Value)> = Vec::new();
    for kind in registry.iter().filter(|kind| kind.group == group && kind.version == version) {
        if !kind.verbs.is_empty() {
            resources.push((kind.plural.clone(), resource(kind)));
        }
        for sub in &kind.subresources {
            let name = format!("{}/{}", kind.plural, sub.name);
            let mut entry = json!({
                "name": name, "singularName": "", "namespaced": kind.namespaced, "kind": sub.kind.kind, "verbs": sub.verbs,
            });
            if !sub.kind.version.is_empty() {
                entry["group"] = json!(sub.kind.group);
                entry["version"] = json!(sub.kind.version);
            }
            resources.push((name, entry));
        }
    }
    resources.sort_by(|(a, _), (b, _)| a.cmp(b));
    let resources: Vec<Value> = resources.into_iter().map(|(_, entry)| entry).collect();
    let group_version = trireme_machinery::gvk::api_version(group, version);
    let mut out = json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": resources});
    if !group.is_empty() {
        out["apiVersion"] = json!("v1");
    }
    out
}

fn resource(kind: &Kind) -> Value {
    let mut entry = json!({
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": kind.verbs,
    });
    if !kind.short_names.is_empty() {
        entry["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        entry["categories"] = json!(kind.categories);
    }
    if !kind.storage.is_empty() {
        entry["storageVersionHash"] = json!(storage_version_hash(kind));
    }
    entry
}
