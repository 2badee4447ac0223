//! What a kind adds to its schema: the rules that facts cannot state.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde_json::Value;
use trireme_machinery::field::ErrorList;

use crate::table::{self, Column, TableColumn};

/// Who sends a request; some kinds record it (CertificateSigningRequest).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requester {
    /// User name.
    pub name: String,
    /// User id, empty if unknown.
    pub uid: String,
    /// Groups of the user.
    pub groups: Vec<String>,
    /// What the authenticator knows besides.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The request that hooks run in.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The API server's time.
    pub now: Timestamp,
    /// Who asks; `None` for the API server itself.
    pub requester: Option<&'a Requester>,
}

impl Context<'_> {
    /// A request of the API server itself.
    pub fn internal(now: Timestamp) -> Self {
        Self { now, requester: None }
    }
}

/// The rules of a kind. Every default is what most kinds do. `obj` is always decoded and settled (see
/// `trireme_machinery::schema`), so absent and empty are as Kubernetes would encode them.
pub trait Hooks: fmt::Debug + Send + Sync {
    /// Sets the defaults that are not constants. Runs after the constant ones, on every decode.
    fn default(&self, obj: &mut Value) {
        let _ = obj;
    }

    /// Changes a new object before it is validated. Status and generation are already set by the kind's rules.
    fn prepare_create(&self, obj: &mut Value, ctx: &Context<'_>) {
        let _ = (obj, ctx);
    }

    /// Changes an updated object before it is validated. The old status is already in place.
    fn prepare_update(&self, new: &mut Value, old: &Value, ctx: &Context<'_>) {
        let _ = (new, old, ctx);
    }

    /// Changes an object whose status is updated. All but status and metadata are already the old ones.
    fn prepare_update_status(&self, new: &mut Value, old: &Value, ctx: &Context<'_>) {
        let _ = (new, old, ctx);
    }

    /// Whether an update counts as a new generation: something changed that is neither metadata nor status.
    fn bumps_generation(&self, new: &Value, old: &Value) -> bool {
        let differs = |a: &Value, b: &Value| {
            a.as_object().into_iter().flatten().any(|(key, value)| {
                !matches!(key.as_str(), "apiVersion" | "kind" | "metadata" | "status") && b.get(key) != Some(value)
            })
        };
        differs(new, old) || differs(old, new)
    }

    /// What is wrong with a new object, metadata aside.
    fn validate(&self, obj: &Value, ctx: &Context<'_>) -> ErrorList {
        let _ = (obj, ctx);
        ErrorList::new()
    }

    /// What is wrong with an update, metadata aside.
    fn validate_update(&self, new: &Value, old: &Value, ctx: &Context<'_>) -> ErrorList {
        let _ = old;
        self.validate(new, ctx)
    }

    /// What is wrong with an update of the status, metadata aside.
    fn validate_update_status(&self, new: &Value, old: &Value, ctx: &Context<'_>) -> ErrorList {
        let _ = (new, old, ctx);
        ErrorList::new()
    }

    /// Changes an object that is updated through a subresource other than `status`, before it is validated: keeps of
    /// the old one all that the subresource does not serve.
    fn prepare_subresource(&self, subresource: &str, new: &mut Value, old: &Value) {
        let _ = (subresource, new, old);
    }

    /// What is wrong with an update through a subresource other than `status`, metadata aside.
    fn validate_subresource(&self, subresource: &str, new: &Value, old: &Value) -> ErrorList {
        let _ = (subresource, new, old);
        ErrorList::new()
    }

    /// Removes what is checked but not kept. Runs after validation.
    fn settle_stored(&self, obj: &mut Value) {
        let _ = obj;
    }

    /// Warnings that go with the answer to a create or an update (`old` is the object before).
    fn warnings(&self, obj: &Value, old: Option<&Value>) -> Vec<String> {
        let _ = (obj, old);
        Vec::new()
    }

    /// The columns of a Table of this kind, with what stands in their cells.
    fn table(&self) -> &'static [TableColumn] {
        table::PLAIN
    }

    /// The columns of a Table of this kind, as they are published.
    fn columns(&self) -> Vec<Column> {
        self.table().iter().map(TableColumn::published).collect()
    }

    /// The cells of one row, one for each column.
    fn cells(&self, obj: &Value, now: Timestamp) -> Vec<Value> {
        self.table().iter().map(|column| column.cell(obj, now)).collect()
    }

    /// The names that a field selector may use besides `metadata.name` and `metadata.namespace`.
    fn selectable_field_names(&self) -> &'static [&'static str] {
        &[]
    }

    /// The value of one of [`Hooks::selectable_field_names`].
    fn selectable_field(&self, obj: &Value, name: &str) -> String {
        let value = name.split('.').try_fold(obj, |value, key| value.get(key));
        match value {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        }
    }

    /// Seconds of grace that a deletion gives the object: `None` if it is deleted at once. `requested` is what the
    /// client asked for.
    fn graceful_delete(&self, obj: &Value, requested: Option<i64>) -> Option<i64> {
        let _ = (obj, requested);
        None
    }

    /// Turns an object of this version into the version that is stored.
    fn upgrade(&self, obj: Value) -> Value {
        obj
    }

    /// Turns a stored object into this version.
    fn downgrade(&self, obj: Value) -> Value {
        obj
    }
}

/// The rules of a kind that has no rules of its own.
#[derive(Debug)]
pub struct NoHooks;

impl Hooks for NoHooks {}
