//! Secret (v1).

use crate::cells;
use crate::check::{Node, immutable};
use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::table::{AGE, NAME, TableColumn, column, field};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::meta;
use trireme_machinery::path::Path;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("", "v1", "Secret", "secrets").hooks(Secret)
}

#[derive(Debug)]
struct Secret;

impl Hooks for Secret {
    /// `stringData` is a way to write `data`, and never stands in an object.
    fn default(&self, obj: &mut Value) {
        let Some(Value::Object(texts)) = obj.as_object_mut().and_then(|map| map.remove("stringData")) else { return };
        for (key, text) in texts {
            obj["data"][&key] = Value::String(STANDARD.encode(text.as_str().unwrap_or_default()));
        }
    }

    fn table(&self) -> &'static [TableColumn] {
        TABLE
    }

    fn selectable_field_names(&self) -> &'static [&'static str] {
        &["type"]
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, _: &Context<'_>) {
        if cells::str(new, "type").is_empty() {
            new["type"] = old["type"].clone();
        }
    }

    fn validate(&self, obj: &Value, _: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        validate(obj, &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value, ctx: &Context<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        immutable(&Node::root(new), &Node::root(old), "type", &mut errors);
        super::data::immutable(new, old, &["data"], &mut errors);
        errors.extend(self.validate(new, ctx));
        errors
    }
}

/// What `kubectl get` shows.
static TABLE: &[TableColumn] = &[
    NAME,
    column("Type", "string", field("core.v1.Secret", "type"), |o, _| cells::text(o, "type")),
    column("Data", "string", field("core.v1.Secret", "data"), |o, _| cells::count(o, "data")),
    AGE,
];

fn validate(secret: &Value, errors: &mut ErrorList) {
    let root = Node::root(secret);
    let data = root.get("data");
    let size = super::data::keys(&root.entries("data"), super::data::decoded_length, errors);
    super::data::within_limit(size, &data.path, errors);
    let key = |key: &str| data.path.key(key);
    match root.str("type") {
        "kubernetes.io/service-account-token" => {
            let annotation = "kubernetes.io/service-account.name";
            if meta::annotation(secret, annotation).unwrap_or_default().is_empty() {
                errors.push(field::required(&Path::new("metadata").child("annotations").key(annotation), ""));
            }
        }
        "Opaque" | "" => {}
        "kubernetes.io/dockercfg" => json_of(&data, ".dockercfg", errors),
        "kubernetes.io/dockerconfigjson" => json_of(&data, ".dockerconfigjson", errors),
        "kubernetes.io/basic-auth" if !data.has("username") && !data.has("password") => {
            errors.push(field::required(&key("username"), ""));
            errors.push(field::required(&key("password"), ""));
        }
        "kubernetes.io/ssh-auth" if data.is_empty("ssh-privatekey") => {
            errors.push(field::required(&key("ssh-privatekey"), ""))
        }
        "kubernetes.io/tls" => {
            for name in ["tls.crt", "tls.key"] {
                if !data.has(name) {
                    errors.push(field::required(&key(name), ""));
                }
            }
        }
        _ => {}
    }
}

/// A file of credentials must be there and be JSON.
fn json_of(data: &Node<'_>, name: &str, errors: &mut ErrorList) {
    let at = data.path.key(name);
    match data.given(name) {
        None => errors.push(field::required(&at, "")),
        Some(file) => {
            let bytes = STANDARD.decode(file.text()).unwrap_or_default();
            if let Err(error) = serde_json::from_slice::<Value>(&bytes) {
                errors.push(field::invalid(&at, "<secret contents redacted>", error.to_string()));
            }
        }
    }
}
