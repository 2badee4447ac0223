//! Defaults of CustomResourceDefinitions.

use serde_json::{Value, json};
use trireme_machinery::schema::DefaultFn;

use crate::defaults::{Object, absent, empty, ensure, text};

/// Type and defaults.
pub(crate) const DEFAULTS: &[(&str, DefaultFn)] = &[
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition", definition),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.ServiceReference", |o| absent(o, "port", 443)),
];

fn definition(definition: &mut Object) {
    let Some(spec) = ensure(definition, "spec") else { return };
    absent(spec, "conversion", json!({"strategy": "None"}));
    if let Some(names) = ensure(spec, "names") {
        let kind = text(names, "kind").to_owned();
        if !kind.is_empty() {
            empty(names, "singular", kind.to_lowercase());
            empty(names, "listKind", format!("{kind}List"));
        }
    }
    let stored = spec
        .get("versions")
        .and_then(Value::as_array)
        .and_then(|vs| vs.iter().find(|v| v["storage"] == true))
        .map(|v| v["name"].clone());
    if let (Some(stored), Some(status)) = (stored, ensure(definition, "status")) {
        empty(status, "storedVersions", json!([stored]));
    }
}
