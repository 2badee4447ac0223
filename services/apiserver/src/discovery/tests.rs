use std::path::PathBuf;

use super::*;

/// Upstream's documents, or nothing where they were not brought along.
fn golden(name: &str) -> Option<Value> {
    let folder =
        std::env::var_os("TRIREME_GOLDEN").map_or_else(|| PathBuf::from("../../../shared/golden"), PathBuf::from);
    let text = std::fs::read(folder.join("documents").join(name)).ok()?;
    Some(serde_json::from_slice(&text).unwrap())
}

fn first_difference(path: &str, want: &Value, got: &Value) -> Option<String> {
    match (want, got) {
        (Value::Object(a), Value::Object(b)) => a.keys().chain(b.keys()).find_map(|k| {
            first_difference(&format!("{path}.{k}"), a.get(k).unwrap_or(&Value::Null), b.get(k).unwrap_or(&Value::Null))
        }),
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().find_map(|(i, (a, b))| first_difference(&format!("{path}[{i}]"), a, b))
        }
        (a, b) if a == b => None,
        (a, b) => Some(format!("{path}:\n  upstream {a}\n  ours     {b}")),
    }
}

#[test]
fn documents_are_upstreams() {
    let registry = Registry::builtin();
    let discovery = Discovery::new(registry, "192.0.2.2:26443");
    let mut compared = 0;
    let mut differences = Vec::new();
    for (path, document) in &discovery.documents {
        let name = match path.as_str() {
            "/version" => "version.json".to_owned(),
            path => format!("{}.json", path.trim_start_matches('/').replace('/', ".")),
        };
        let Some(want) = golden(&name) else { continue };
        compared += 1;
        let got: Value = serde_json::from_slice(&document.body).unwrap();
        differences.extend(first_difference(path, &want, &got));
    }
    for (name, document) in [("api.aggregated-v2.json", &discovery.api), ("apis.aggregated-v2.json", &discovery.apis)] {
        let Some(want) = golden(name) else { continue };
        let got: Value = serde_json::from_slice(&document.body).unwrap();
        differences.extend(first_difference(name, &want, &got));
    }
    if let Some(want) = golden("root.json") {
        differences.extend(first_difference("root", &want["paths"], &serde_json::json!(paths(registry))));
    }
    assert!(differences.is_empty(), "{compared} compared; {}", differences.join("\n"));
}

#[test]
fn accept_chooses_the_form() {
    assert!(wants_aggregated("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"));
    assert!(!wants_aggregated("application/json"));
    assert!(!wants_aggregated("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"));
}
