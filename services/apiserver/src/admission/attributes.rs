//! The write that plugins judge.

use std::sync::Arc;

use serde_json::Value;
use trireme_kinds::Kind;
use trireme_machinery::meta;
use trireme_machinery::status::Status;

use crate::pipeline::Context;

/// What is done to the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// It is made.
    Create,
    /// It is changed (by PUT, PATCH or apply).
    Update,
    /// It is deleted.
    Delete,
    /// A stream to it is opened (exec, attach, port-forward, proxy).
    Connect,
}

impl Operation {
    /// Its name in messages and policies.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// A write, as plugins see it.
pub struct Attributes<'a> {
    /// The request's surroundings: who, when, warnings.
    pub context: &'a Context,
    /// The kind of the resource in the path, whatever the subresource.
    pub kind: &'a Arc<Kind>,
    /// What is done.
    pub operation: Operation,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The namespace, or empty.
    pub namespace: &'a str,
    /// The name in the request; empty for a create.
    pub name: &'a str,
    /// The object that will be: decoded and defaulted, of the subresource's own kind where it has one. None on delete.
    pub object: Option<&'a mut Value>,
    /// The object that is; None on create.
    pub old: Option<&'a Value>,
    /// The verb's options (CreateOptions, UpdateOptions, …).
    pub options: &'a Value,
    /// Whether nothing will be persisted.
    pub dry_run: bool,
}

impl Attributes<'_> {
    /// Whether the path names this resource, and no subresource.
    #[must_use]
    pub fn is(&self, group: &str, resource: &str) -> bool {
        self.is_sub(group, resource, "")
    }

    /// Whether the path names this subresource.
    #[must_use]
    pub fn is_sub(&self, group: &str, resource: &str, subresource: &str) -> bool {
        self.kind.group == group && self.kind.plural == resource && self.subresource == subresource
    }

    /// The object that will be.
    #[must_use]
    pub fn object(&self) -> &Value {
        self.object.as_deref().unwrap_or(&Value::Null)
    }

    /// A refusal in upstream's form: `pods "web" is forbidden: …`.
    #[must_use]
    pub fn forbidden(&self, why: impl std::fmt::Display) -> Status {
        Status::forbidden(&self.kind.group_resource(), self.display_name(), why)
    }

    /// The name, as well as it is known before one was generated.
    #[must_use]
    pub fn display_name(&self) -> &str {
        if !self.name.is_empty() {
            return self.name;
        }
        let object = self.object();
        match (meta::name(object), meta::generate_name(object)) {
            ("", "") => "Unknown",
            ("", generate) => generate,
            (name, _) => name,
        }
    }
}
