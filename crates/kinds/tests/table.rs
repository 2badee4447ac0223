//! The registry against the recorded discovery documents and the published schemas.

use std::collections::BTreeSet;

use serde_json::Value;
use trireme_kinds::{Kind, Registry};
use trireme_machinery::schema::{ListKind, Shape};

use crate::golden::record::document;

/// Every resource of the discovery documents is there with its names, scope, verbs and subresources, and no other.
#[test]
fn the_registry_is_what_discovery_says() {
    let Some(aggregated) = document("apis.aggregated-v2.json") else { return };
    let Some(core) = document("api.aggregated-v2.json") else { return };
    let mut wanted = BTreeSet::new();
    for group in [&core, &aggregated].iter().flat_map(|d| d["items"].as_array().unwrap()) {
        let name = group["metadata"]["name"].as_str().unwrap_or_default();
        for version in group["versions"].as_array().unwrap() {
            for resource in version["resources"].as_array().unwrap() {
                wanted.insert(described(name, version["version"].as_str().unwrap(), resource));
            }
        }
    }
    let have: BTreeSet<String> = Registry::builtin().iter().map(|k| of_kind(k)).collect();
    assert_eq!(wanted.difference(&have).collect::<Vec<_>>(), Vec::<&String>::new(), "missing");
    assert_eq!(have.difference(&wanted).collect::<Vec<_>>(), Vec::<&String>::new(), "too many");
}

fn described(group: &str, version: &str, r: &Value) -> String {
    let subresources: Vec<String> = r["subresources"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|s| {
            let kind = &s["responseKind"];
            let group_of = kind["group"].as_str().filter(|g| !g.is_empty()).unwrap_or(group);
            format!(
                "{}={}/{}{:?}",
                s["subresource"].as_str().unwrap(),
                group_of,
                kind["kind"].as_str().unwrap(),
                texts(&s["verbs"])
            )
        })
        .collect();
    format!(
        "{group}/{version} {} {} {} namespaced={} {:?} {:?} {:?} {:?}",
        r["resource"].as_str().unwrap(),
        r["responseKind"]["kind"].as_str().unwrap(),
        r["singularResource"].as_str().unwrap(),
        r["scope"] == "Namespaced",
        texts(&r["verbs"]),
        texts(&r["shortNames"]),
        texts(&r["categories"]),
        subresources,
    )
}

fn of_kind(kind: &Kind) -> String {
    let subresources: Vec<String> = kind
        .subresources
        .iter()
        .map(|s| {
            let group = if s.kind.group.is_empty() && s.kind.version.is_empty() { &kind.group } else { &s.kind.group };
            format!("{}={}/{}{:?}", s.name, group, s.kind.kind, s.verbs)
        })
        .collect();
    format!(
        "{}/{} {} {} {} namespaced={} {:?} {:?} {:?} {:?}",
        kind.group,
        kind.version,
        kind.plural,
        kind.kind,
        kind.singular,
        kind.namespaced,
        kind.verbs,
        kind.short_names,
        kind.categories,
        subresources
    )
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().map(|v| v.as_str().unwrap()).collect()
}

/// The table of facts says of every published type what the published schema says.
#[test]
fn the_facts_are_what_is_published() {
    let Some(published) = document("openapi.v2.json") else { return };
    let schema = Registry::builtin().schema();
    let (mut types, mut fields) = (0, 0);
    for (name, definition) in published["definitions"].as_object().unwrap() {
        let Some(properties) = definition["properties"].as_object() else { continue };
        // The version document and the watch event are no API types.
        let Some(id) = schema.find(name) else {
            assert!(name.ends_with(".version.Info") || name.ends_with(".WatchEvent"), "no type {name}");
            continue;
        };
        let Shape::Object(object) = schema.shape(id) else { panic!("{name} is no object") };
        types += 1;
        assert_eq!(object.fields.len(), properties.len(), "fields of {name}");
        let required = texts(&definition["required"]);
        for (key, property) in properties {
            let field = object.field(key).unwrap_or_else(|| panic!("no field {name}.{key}"));
            fields += 1;
            assert_eq!(field.required, required.iter().any(|r| r == key), "{name}.{key} required");
            let list = match property["x-kubernetes-list-type"].as_str() {
                Some("set") => Some(ListKind::Set),
                Some("map") => Some(ListKind::Map(
                    texts(&property["x-kubernetes-list-map-keys"]).into_iter().map(Into::into).collect(),
                )),
                _ if property["type"] == "array" => Some(ListKind::Atomic),
                _ => None,
            };
            assert_eq!(schema.list_kind(field), list.as_ref(), "{name}.{key} list type");
            assert_eq!(
                field.patch_merge_key.as_deref(),
                property["x-kubernetes-patch-merge-key"].as_str(),
                "{name}.{key} merge key"
            );
            let strategy = property["x-kubernetes-patch-strategy"].as_str().unwrap_or_default();
            assert_eq!(field.patch_strategy.merge, strategy.contains("merge"), "{name}.{key} merge");
            assert_eq!(field.patch_strategy.retain_keys, strategy.contains("retainKeys"), "{name}.{key} retainKeys");
            let values =
                texts(if property["enum"].is_array() { &property["enum"] } else { &property["items"]["enum"] });
            assert_eq!(field.enum_values.iter().map(|v| &**v).collect::<Vec<_>>(), values, "{name}.{key} enum");
        }
    }
    assert!(types > 600 && fields > 2400, "{types} types, {fields} fields");
}

/// Each field has a protobuf number of its own. (A Table has no protobuf encoding; apiVersion and kind of whole objects
/// travel in the envelope; embedded structures have numbers of their own.)
#[test]
fn protobuf_numbers_are_there_and_differ() {
    for (_, ty) in Registry::builtin().schema().iter().filter(|(_, ty)| !ty.name.contains(".meta.v1.Table")) {
        let Shape::Object(object) = &ty.shape else { continue };
        let mut seen = BTreeSet::new();
        for field in object.fields.iter().filter(|f| f.embedded.is_empty()) {
            if field.proto_number == 0 {
                assert!(["apiVersion", "kind"].contains(&&*field.name), "{}.{} has no number", ty.name, field.name);
                continue;
            }
            assert!(seen.insert(field.proto_number), "{}.{} shares number {}", ty.name, field.name, field.proto_number);
        }
    }
}
