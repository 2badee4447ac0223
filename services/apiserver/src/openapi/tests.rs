use std::path::PathBuf;

use super::*;

fn golden(name: &str) -> Option<Value> {
    let folder =
        std::env::var_os("TRIREME_GOLDEN").map_or_else(|| PathBuf::from("../../../shared/golden"), PathBuf::from);
    let text = std::fs::read(folder.join("documents/openapi.v3").join(name)).ok()?;
    Some(serde_json::from_slice(&text).unwrap())
}

fn api() -> OpenApi {
    OpenApi::new(Arc::new(Registry::builtin().clone()))
}

/// Drops the texts, which are not ours.
fn facts(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(key, value)| !(key.as_str() == "description" && value.is_string()))
            .map(|(key, value)| (key.clone(), facts(value)))
            .collect(),
        Value::Array(items) => items.iter().map(facts).collect(),
        other => other.clone(),
    }
}

#[test]
fn schemas_are_upstreams() {
    let Some(want) = golden("apis.apps.v1.json") else { return };
    let got: Value = serde_json::from_slice(&api().document("apps", "v1", text)).unwrap();
    let (want, got) = (&want["components"]["schemas"], &got["components"]["schemas"]);
    let mut different = Vec::new();
    for (name, schema) in got.as_object().unwrap() {
        if facts(schema) != facts(&want[name]) {
            different.push(name.clone());
        }
    }
    let missing: Vec<&String> =
        want.as_object().unwrap().keys().filter(|name| got.get(name.as_str()).is_none()).collect();
    let total = got.as_object().unwrap().len();
    assert!(different.len() * 10 <= total, "{} of {total} differ: {different:?}; missing {missing:?}", different.len());
}

#[test]
fn the_index_names_every_document() {
    let api = api();
    let index: Value = serde_json::from_slice(&api.index().body).unwrap();
    let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap();
    assert!(url.starts_with("/openapi/v3/apis/apps/v1?hash="), "{url}");
    assert!(index["paths"]["api/v1"].is_object());
}

#[test]
fn operations_say_what_kubectl_looks_for() {
    let got: Value = serde_json::from_slice(&api().document("apps", "v1", text)).unwrap();
    let patch = &got["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    assert_eq!(patch["operationId"], "patchAppsV1NamespacedDeployment");
    assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Deployment");
    let parameters = patch["parameters"].as_array().unwrap();
    assert!(parameters.iter().any(|parameter| parameter["name"] == "fieldValidation"));
}
