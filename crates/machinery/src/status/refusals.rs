//! The answers of the API server, each by its name, in Kubernetes' words.

use std::fmt;

use serde_json::Value;

use super::{Cause, Details, Reason, Status, cause, status_api_version, status_kind};
use crate::field::{self, ErrorList};
use crate::go;
use crate::gvk::{GroupResource, GroupVersionKind};

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

    /// A failure that is about an object.
    pub(super) fn of(resource: &GroupResource, name: &str, code: u16, reason: Reason, message: String) -> Self {
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
}

fn joined<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    names.into_iter().map(|name| name.as_ref().to_owned()).collect::<Vec<_>>().join(", ")
}
