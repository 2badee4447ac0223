//! Everything in one document: `apidiscovery.k8s.io/v2`.

use serde_json::{Value, json};
use trireme_kinds::{Kind, Registry};

use super::groups;

/// The list for `/api` (`core`) or `/apis`.
pub(super) fn list(registry: &Registry, core: bool) -> Value {
    let items: Vec<Value> = groups::served(registry)
        .iter()
        .filter(|group| group.name.is_empty() == core)
        .map(|group| {
            let versions: Vec<Value> =
                group.versions.iter().map(|version| version_entry(registry, &group.name, version)).collect();
            let metadata = if core { json!({}) } else { json!({"name": group.name}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn version_entry(registry: &Registry, group: &str, version: &str) -> Value {
    let mut kinds: Vec<&Kind> =
        registry.iter().map(AsRef::as_ref).filter(|kind| kind.group == group && kind.version == version).collect();
    kinds.sort_by(|a, b| a.plural.cmp(&b.plural));
    let resources: Vec<Value> = kinds.into_iter().map(resource).collect();
    json!({"version": version, "resources": resources, "freshness": "Current"})
}

fn response_kind(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}

fn resource(kind: &Kind) -> Value {
    let mut entry = json!({
        "resource": kind.plural,
        // Group and version are those of the document.
        "responseKind": response_kind("", "", &kind.kind),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": kind.verbs,
    });
    if !kind.short_names.is_empty() {
        entry["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        entry["categories"] = json!(kind.categories);
    }
    if !kind.subresources.is_empty() {
        let mut subresources: Vec<_> = kind.subresources.iter().collect();
        subresources.sort_by(|a, b| a.name.cmp(&b.name));
        entry["subresources"] = subresources
            .iter()
            .map(|sub| {
                json!({
                    "subresource": sub.name,
                    "responseKind": response_kind(&sub.kind.group, &sub.kind.version, &sub.kind.kind),
                    "verbs": sub.verbs,
                })
            })
            .collect();
    }
    entry
}
