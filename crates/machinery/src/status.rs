//! `Status`: the answer to a request that was refused, and the error type of every API call.
//!
//! The constructors speak Kubernetes' words, so that clients which look at messages find what they know.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::field::{self, ErrorList};
use crate::go;
use crate::gvk::{GroupResource, GroupVersionKind};

/// The `Status` object of `v1`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    #[serde(default = "status_kind")]
    kind: String,
    #[serde(default = "status_api_version")]
    api_version: String,
    /// List metadata; in answers to failed requests it is empty.
    #[serde(default)]
    pub metadata: Value,
    /// `Failure` or `Success`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// What went wrong, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What went wrong, for machines.
    #[serde(default, skip_serializing_if = "Reason::is_unknown")]
    pub reason: Reason,
    /// Of which object, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<Details>>,
    /// The HTTP code.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub code: u16,
}

/// Which object a [`Status`] is about, and the single causes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Details {
    /// The object's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The object's group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The object's kind, or its resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The object's uid.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// One entry for each thing that is wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// When a repetition may have success.
    #[serde(skip_serializing_if = "is_zero_i32")]
    pub retry_after_seconds: i32,
}

/// One thing that is wrong.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cause {
    /// What sort of thing.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// In words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The field it is about.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// The machine's word for why a request failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names are Kubernetes' reasons, letter by letter")]
pub enum Reason {
    /// No reason was given.
    #[default]
    Unknown,
    Unauthorized,
    Forbidden,
    NotFound,
    AlreadyExists,
    Conflict,
    Gone,
    Invalid,
    ServerTimeout,
    StoreReadError,
    Timeout,
    TooManyRequests,
    BadRequest,
    MethodNotAllowed,
    NotAcceptable,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    InternalError,
    Expired,
    ServiceUnavailable,
    /// One that Kubernetes 1.37 does not list.
    Other(String),
}

/// Reasons of [`Cause`]s that are not field errors.
pub mod cause {
    /// The field manager that owns a field stands in the way of an apply.
    pub const FIELD_MANAGER_CONFLICT: &str = "FieldManagerConflict";
    /// The server's answer was not a Status.
    pub const UNEXPECTED_SERVER_RESPONSE: &str = "UnexpectedServerResponse";
    /// The requested version is not reached yet.
    pub const RESOURCE_VERSION_TOO_LARGE: &str = "ResourceVersionTooLarge";
    /// The namespace is being deleted.
    pub const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";
    /// A disruption budget forbids the eviction.
    pub const DISRUPTION_BUDGET: &str = "DisruptionBudget";
    /// The writer's claim on the key's shard is not the current one (Trireme's own).
    pub const CLAIM_LOST: &str = "ClaimLost";
}

// === impl Reason ===

macro_rules! reasons {
    ($($name:ident),* $(,)?) => {
        impl Reason {
            /// The reason as it travels.
            pub fn as_str(&self) -> &str {
                match self {
                    Self::Unknown => "",
                    $(Self::$name => stringify!($name),)*
                    Self::Other(other) => other,
                }
            }
        }

        impl From<String> for Reason {
            fn from(text: String) -> Self {
                match text.as_str() {
                    "" => Self::Unknown,
                    $(stringify!($name) => Self::$name,)*
                    _ => Self::Other(text),
                }
            }
        }
    };
}

reasons!(
    Unauthorized,
    Forbidden,
    NotFound,
    AlreadyExists,
    Conflict,
    Gone,
    Invalid,
    ServerTimeout,
    StoreReadError,
    Timeout,
    TooManyRequests,
    BadRequest,
    MethodNotAllowed,
    NotAcceptable,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    InternalError,
    Expired,
    ServiceUnavailable,
);

impl Reason {
    fn is_unknown(&self) -> bool {
        *self == Self::Unknown
    }

    fn is_listed(&self) -> bool {
        !matches!(self, Self::Unknown | Self::Other(_))
    }
}

impl From<Reason> for String {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Other(other) => other,
            listed => listed.as_str().to_owned(),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl Status ===

impl Status {
    /// A failure with nothing but code, reason and message.
    pub fn failure(code: u16, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            kind: status_kind(),
            api_version: status_api_version(),
            metadata: Value::Object(Default::default()),
            status: "Failure".to_owned(),
            message: message.into(),
            reason,
            details: None,
            code,
        }
    }

    /// The answer to a deletion that is done, and to others that have no object to answer with.
    pub fn success(details: Option<Details>) -> Self {
        Self {
            status: "Success".to_owned(),
            details: details.map(Box::new),
            code: 0,
            ..Self::failure(0, Reason::Unknown, "")
        }
    }

    fn of(resource: &GroupResource, name: &str, code: u16, reason: Reason, message: String) -> Self {
        Self::failure(code, reason, message).with_details(Details {
            group: resource.group.clone(),
            kind: resource.resource.clone(),
            name: name.to_owned(),
            ..Details::default()
        })
    }

    /// 404: there is no such object.
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::of(resource, name, 404, Reason::NotFound, format!("{resource} {} not found", go::quote(name)))
    }

    /// 404: there is no such path.
    pub fn unknown_resource() -> Self {
        Self::failure(404, Reason::NotFound, "the server could not find the requested resource")
            .with_details(Details::default())
    }

    /// 409: an object of that name is there already.
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::of(resource, name, 409, Reason::AlreadyExists, format!("{resource} {} already exists", go::quote(name)))
    }

    /// 409: no free name was found for an object with a `generateName`.
    pub fn generate_name_conflict(resource: &GroupResource, name: &str, retry_after_seconds: i32) -> Self {
        let message = format!(
            "{resource} {} already exists, the server was not able to generate a unique name for the object",
            go::quote(name)
        );
        Self::of(resource, name, 409, Reason::AlreadyExists, message).with_retry_after(retry_after_seconds)
    }

    /// 409: the object is not what the request takes it for.
    pub fn conflict(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {}: {why}", go::quote(name));
        Self::of(resource, name, 409, Reason::Conflict, message)
    }

    /// 409: other managers own fields that an apply sets.
    pub fn apply_conflict(causes: Vec<Cause>, message: impl Into<String>) -> Self {
        Self::failure(409, Reason::Conflict, message).with_details(Details { causes, ..Details::default() })
    }

    /// 422: the object is against the rules of its kind.
    pub fn invalid(kind: &GroupVersionKind, name: &str, errors: ErrorList) -> Self {
        let what = format!("{} {} is invalid", kind.group_kind(), go::quote(name));
        let message = if errors.is_empty() { what } else { format!("{what}: {}", field::aggregate(&errors)) };
        let causes = errors
            .iter()
            .map(|error| Cause {
                reason: error.error_type.reason().to_owned(),
                message: error.body(),
                field: error.field.clone(),
            })
            .collect();
        Self::failure(422, Reason::Invalid, message).with_details(Details {
            group: kind.group.clone(),
            kind: kind.kind.clone(),
            name: name.to_owned(),
            causes,
            ..Details::default()
        })
    }

    /// 422 without a word about what is wrong: what a JSON patch that cannot be applied gets.
    pub fn unprocessable(details: Details) -> Self {
        Self::failure(422, Reason::Invalid, "the server rejected our request due to an error in our request")
            .with_details(details)
    }

    /// 400: the request makes no sense.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(400, Reason::BadRequest, message)
    }

    /// 401: it is not known who asks.
    pub fn unauthorized(message: impl Into<String>) -> Self {
        let message = message.into();
        Self::failure(401, Reason::Unauthorized, if message.is_empty() { "not authorized".to_owned() } else { message })
    }

    /// 403: it is known who asks, and that is why.
    pub fn forbidden(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let message = match (resource.is_empty(), name) {
            (true, _) => format!("forbidden: {why}"),
            (false, "") => format!("{resource} is forbidden: {why}"),
            (false, name) => format!("{resource} {} is forbidden: {why}", go::quote(name)),
        };
        Self::of(resource, name, 403, Reason::Forbidden, message)
    }

    /// 405: the resource is there, and does not do this.
    pub fn method_not_supported(resource: &GroupResource, action: &str) -> Self {
        let message = format!("{action} is not supported on resources of kind {}", go::quote(&resource.to_string()));
        Self::of(resource, "", 405, Reason::MethodNotAllowed, message)
    }

    /// 406: nothing that the server can send is accepted by the client.
    pub fn not_acceptable<S: AsRef<str>>(accepted: impl IntoIterator<Item = S>) -> Self {
        let message = format!("only the following media types are accepted: {}", joined(accepted));
        Self::failure(406, Reason::NotAcceptable, message)
    }

    /// 410: what is asked for is gone for good.
    pub fn gone(message: impl Into<String>) -> Self {
        Self::failure(410, Reason::Gone, message)
    }

    /// 410: the version asked for is compacted away.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(410, Reason::Expired, message)
    }

    /// 413: the body is too large.
    pub fn request_entity_too_large(message: impl fmt::Display) -> Self {
        Self::failure(413, Reason::RequestEntityTooLarge, format!("Request entity too large: {message}"))
    }

    /// 415: the body is in a format that the server does not read here.
    pub fn unsupported_media_type<S: AsRef<str>>(accepted: impl IntoIterator<Item = S>) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            joined(accepted)
        );
        Self::failure(415, Reason::UnsupportedMediaType, message)
    }

    /// 429: come back later.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: i32) -> Self {
        Self::failure(429, Reason::TooManyRequests, message)
            .with_details(Details { retry_after_seconds, ..Details::default() })
    }

    /// 500: the server's own fault.
    pub fn internal(why: impl fmt::Display) -> Self {
        let message = why.to_string();
        Self::failure(500, Reason::InternalError, format!("Internal error occurred: {message}"))
            .with_details(Details { causes: vec![Cause { message, ..Cause::default() }], ..Details::default() })
    }

    /// 500: the operation could not be done now, a repetition may work.
    pub fn server_timeout(resource: &GroupResource, operation: &str, retry_after_seconds: i32) -> Self {
        let message = format!(
            "The {operation} operation against {resource} could not be completed at this time, please try again."
        );
        Self::of(resource, operation, 500, Reason::ServerTimeout, message).with_retry_after(retry_after_seconds)
    }

    /// 503: the server cannot serve.
    pub fn service_unavailable(message: impl Into<String>) -> Self {
        Self::failure(503, Reason::ServiceUnavailable, message)
    }

    /// 504: the request took too long.
    pub fn timeout(message: impl fmt::Display, retry_after_seconds: i32) -> Self {
        Self::failure(504, Reason::Timeout, format!("Timeout: {message}"))
            .with_details(Details { retry_after_seconds, ..Details::default() })
    }

    /// 504: the version asked for is ahead of what this server has seen.
    pub fn too_large_resource_version(asked: u64, current: u64, retry_after_seconds: i32) -> Self {
        let mut status =
            Self::timeout(format!("Too large resource version: {asked}, current: {current}"), retry_after_seconds);
        if let Some(details) = &mut status.details {
            details.causes.push(Cause {
                reason: cause::RESOURCE_VERSION_TOO_LARGE.to_owned(),
                message: "Too large resource version".to_owned(),
                field: String::new(),
            });
        }
        status
    }

    /// What a client makes of an answer that is not a Status.
    pub fn generic(code: u16, verb: &str, resource: &GroupResource, name: &str, body: &str) -> Self {
        let (reason, text) = match code {
            409 if verb == "POST" => (Reason::AlreadyExists, "the server reported a conflict".to_owned()),
            409 => (Reason::Conflict, "the server reported a conflict".to_owned()),
            404 => (Reason::NotFound, "the server could not find the requested resource".to_owned()),
            400 => (Reason::BadRequest, "the server rejected our request for an unknown reason".to_owned()),
            401 => (Reason::Unauthorized, "the server has asked for the client to provide credentials".to_owned()),
            403 => (Reason::Forbidden, body.to_owned()),
            405 => (Reason::MethodNotAllowed, "the server does not allow this method on the requested resource".to_owned()),
            406 => (
                Reason::NotAcceptable,
                "the server was unable to respond with a content type that the client supports".to_owned(),
            ),
            415 => (Reason::UnsupportedMediaType, body.to_owned()),
            422 => (Reason::Invalid, "the server rejected our request due to an error in our request".to_owned()),
            429 => (
                Reason::TooManyRequests,
                "the server has received too many requests and has asked us to try again later".to_owned(),
            ),
            503 => (Reason::ServiceUnavailable, "the server is currently unable to handle the request".to_owned()),
            504 => (
                Reason::Timeout,
                "the server was unable to return a response in the time allotted, but may still be processing the request"
                    .to_owned(),
            ),
            500.. => (
                Reason::InternalError,
                format!("an error on the server ({}) has prevented the request from succeeding", go::quote(body)),
            ),
            _ => (
                Reason::Unknown,
                format!("the server responded with the status code {code} but did not return more information"),
            ),
        };
        let message = match (resource.is_empty(), name) {
            (true, _) => text,
            (false, "") => format!("{text} ({} {resource})", verb.to_lowercase()),
            (false, name) => format!("{text} ({} {resource} {name})", verb.to_lowercase()),
        };
        let mut status = Self::of(resource, name, code, reason, message);
        if let Some(details) = &mut status.details {
            details.causes.push(Cause {
                reason: cause::UNEXPECTED_SERVER_RESPONSE.to_owned(),
                message: body.to_owned(),
                field: String::new(),
            });
        }
        status
    }

    /// The same with other details.
    #[must_use]
    pub fn with_details(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// The same with one more cause.
    #[must_use]
    pub fn with_cause(mut self, reason: &str, message: impl Into<String>, field: &str) -> Self {
        self.details.get_or_insert_default().causes.push(Cause {
            reason: reason.to_owned(),
            message: message.into(),
            field: field.to_owned(),
        });
        self
    }

    /// The same with a time after which a repetition may have success.
    #[must_use]
    pub fn with_retry_after(mut self, seconds: i32) -> Self {
        self.details.get_or_insert_default().retry_after_seconds = seconds;
        self
    }

    /// The HTTP code.
    pub fn code(&self) -> u16 {
        self.code
    }

    /// When the server asks to come back, if it does.
    pub fn retry_after_seconds(&self) -> Option<i32> {
        let seconds = self.details.as_ref()?.retry_after_seconds;
        (seconds > 0 || self.reason == Reason::ServerTimeout).then_some(seconds)
    }

    /// Whether one of the causes has this reason.
    pub fn has_cause(&self, reason: &str) -> bool {
        self.details.as_ref().is_some_and(|details| details.causes.iter().any(|cause| cause.reason == reason))
    }

    /// Whether it is this failure, by its reason or, where that says nothing, by its code.
    fn is(&self, reason: &Reason, code: u16) -> bool {
        self.reason == *reason || (!self.reason.is_listed() && self.code == code)
    }

    /// Whether the object is not there.
    pub fn is_not_found(&self) -> bool {
        self.is(&Reason::NotFound, 404)
    }

    /// Whether the object is there already.
    pub fn is_already_exists(&self) -> bool {
        self.reason == Reason::AlreadyExists
    }

    /// Whether the object changed meanwhile.
    pub fn is_conflict(&self) -> bool {
        self.is(&Reason::Conflict, 409)
    }

    /// Whether the object is against the rules of its kind.
    pub fn is_invalid(&self) -> bool {
        self.is(&Reason::Invalid, 422)
    }

    /// Whether the caller may not do this.
    pub fn is_forbidden(&self) -> bool {
        self.is(&Reason::Forbidden, 403)
    }

    /// Whether the caller is not known.
    pub fn is_unauthorized(&self) -> bool {
        self.is(&Reason::Unauthorized, 401)
    }

    /// Whether the version asked for is compacted away (410).
    pub fn is_gone(&self) -> bool {
        matches!(self.reason, Reason::Gone | Reason::Expired) || (!self.reason.is_listed() && self.code == 410)
    }

    /// Whether the server asks the client to slow down.
    pub fn is_too_many_requests(&self) -> bool {
        self.reason == Reason::TooManyRequests || self.code == 429
    }

    /// Whether the request took too long.
    pub fn is_timeout(&self) -> bool {
        self.is(&Reason::Timeout, 504)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

fn joined<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    names.into_iter().map(|name| name.as_ref().to_owned()).collect::<Vec<_>>().join(", ")
}

fn status_kind() -> String {
    "Status".to_owned()
}

fn status_api_version() -> String {
    "v1".to_owned()
}

fn is_zero(code: &u16) -> bool {
    *code == 0
}

fn is_zero_i32(seconds: &i32) -> bool {
    *seconds == 0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::path::Path;

    #[test]
    fn an_invalid_object_names_every_cause() {
        let errors = vec![
            field::required(&Path::new("spec").child("selector"), ""),
            field::invalid(&Path::new("spec").child("replicas"), &-1, "must be greater than or equal to 0"),
        ];
        let status = Status::invalid(&GroupVersionKind::new("apps", "v1", "Deployment"), "web", errors);
        assert_eq!(
            serde_json::to_value(&status).unwrap(),
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 422, "reason": "Invalid",
                "message": "Deployment.apps \"web\" is invalid: [spec.selector: Required value, \
                            spec.replicas: Invalid value: -1: must be greater than or equal to 0]",
                "details": {"name": "web", "group": "apps", "kind": "Deployment", "causes": [
                    {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.selector"},
                    {"reason": "FieldValueInvalid", "message": "Invalid value: -1: must be greater than or equal to 0",
                     "field": "spec.replicas"}]},
            })
        );
    }

    #[test]
    fn a_foreign_status_is_read_leniently() {
        let status: Status = serde_json::from_value(json!({"code": 409, "reason": "Odd", "message": "m"})).unwrap();
        assert_eq!(status.reason, Reason::Other("Odd".to_owned()));
        assert!(status.is_conflict());
        assert!(!status.is_already_exists());
    }

    #[test]
    fn messages_are_upstreams() {
        let pods = GroupResource::new("", "pods");
        assert_eq!(Status::not_found(&pods, "a").message, "pods \"a\" not found");
        assert_eq!(
            Status::method_not_supported(&GroupResource::new("apps", "deployments"), "patch").message,
            "patch is not supported on resources of kind \"deployments.apps\""
        );
        let late = Status::too_large_resource_version(9, 3, 1);
        assert_eq!(late.message, "Timeout: Too large resource version: 9, current: 3");
        assert!(late.has_cause(cause::RESOURCE_VERSION_TOO_LARGE));
        assert_eq!(Status::forbidden(&GroupResource::default(), "", "x").message, "forbidden: x");
    }
}
