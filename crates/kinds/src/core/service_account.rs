//! ServiceAccount (v1).

use serde_json::{Value, json};
use trireme_machinery::gvk::GroupVersionKind;

use crate::definition::Definition;
use crate::hooks::{Context, Hooks};
use crate::table::{NAME_AND_AGE, TableColumn};

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("", "v1", "ServiceAccount", "serviceaccounts")
        .short(&["sa"])
        .subresource("token", GroupVersionKind::new("authentication.k8s.io", "v1", "TokenRequest"), &["create"])
        .hooks(ServiceAccount)
}

#[derive(Debug)]
struct ServiceAccount;

impl Hooks for ServiceAccount {
    fn table(&self) -> &'static [TableColumn] {
        NAME_AND_AGE
    }

    fn prepare_create(&self, account: &mut Value, _: &Context<'_>) {
        only_names(account);
    }

    fn prepare_update(&self, new: &mut Value, _: &Value, _: &Context<'_>) {
        only_names(new);
    }
}

/// Secrets are named, and nothing else is said of them.
fn only_names(account: &mut Value) {
    for secret in account.get_mut("secrets").and_then(Value::as_array_mut).into_iter().flatten() {
        *secret = match secret.get("name") {
            Some(name) => json!({"name": name}),
            None => json!({}),
        };
    }
}
