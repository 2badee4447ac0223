//! The question an authorizer answers.

use crate::pipeline::RequestInfo;

/// A requirement `field=value` of a field selector: the only part of selectors that authorizers look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldEquals {
    /// The field's path.
    pub field: String,
    /// The value it must have.
    pub value: String,
}

/// What is about to be done. Borrowed, because it is asked on every request.
#[derive(Debug, Clone, Copy, Default)]
pub struct Attributes<'a> {
    /// The API verb (`get`, `deletecollection`, …), or the lower-case HTTP method of a path outside the API.
    pub verb: &'a str,
    /// Whether this concerns an API resource, or a plain path.
    pub is_resource: bool,
    /// API group.
    pub group: &'a str,
    /// API version.
    pub version: &'a str,
    /// Plural name of the resource.
    pub resource: &'a str,
    /// Subresource, or empty.
    pub subresource: &'a str,
    /// Namespace, or empty.
    pub namespace: &'a str,
    /// Name of the object, or empty.
    pub name: &'a str,
    /// The path of a request that is not for a resource.
    pub path: &'a str,
    /// The equality requirements of the field selector.
    pub field_selector: &'a [FieldEquals],
}

impl<'a> Attributes<'a> {
    /// What a request asks for.
    #[must_use]
    pub fn of(info: &'a RequestInfo, field_selector: &'a [FieldEquals]) -> Self {
        Self {
            verb: &info.verb,
            is_resource: info.is_resource,
            group: &info.group,
            version: &info.version,
            resource: &info.resource,
            subresource: &info.subresource,
            namespace: &info.namespace,
            name: &info.name,
            path: &info.path,
            field_selector,
        }
    }

    /// A question about a resource.
    #[must_use]
    pub fn resource(verb: &'a str, group: &'a str, resource: &'a str) -> Self {
        Self { verb, is_resource: true, group, version: "*", resource, ..Self::default() }
    }

    /// A question about a path outside the API.
    #[must_use]
    pub fn path(verb: &'a str, path: &'a str) -> Self {
        Self { verb, path, ..Self::default() }
    }

    /// The same about one object.
    #[must_use]
    pub fn named(mut self, namespace: &'a str, name: &'a str) -> Self {
        self.namespace = namespace;
        self.name = name;
        self
    }

    /// Whether the field selector demands `field=value`.
    #[must_use]
    pub fn selects(&self, field: &str, value: &str) -> bool {
        self.field_selector.iter().any(|r| r.field == field && r.value == value)
    }
}

/// What an authorizer thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Go ahead; no other authorizer is asked.
    Allow,
    /// No; no other authorizer is asked.
    Deny,
    /// Ask the next; if there is none, it is a no.
    NoOpinion,
}

/// A verdict with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The verdict.
    pub verdict: Verdict,
    /// Why; may be empty. Users see it.
    pub reason: String,
}

impl Decision {
    /// Yes.
    #[must_use]
    pub fn allow(reason: impl Into<String>) -> Self {
        Self { verdict: Verdict::Allow, reason: reason.into() }
    }

    /// Nothing to say.
    #[must_use]
    pub fn no_opinion(reason: impl Into<String>) -> Self {
        Self { verdict: Verdict::NoOpinion, reason: reason.into() }
    }

    /// Whether the verdict is a yes.
    #[must_use]
    pub fn allowed(&self) -> bool {
        self.verdict == Verdict::Allow
    }
}
