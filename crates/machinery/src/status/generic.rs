//! What a client makes of an answer that is not a Status.

use super::{Cause, Reason, Status, cause};
use crate::go;
use crate::gvk::GroupResource;

impl Status {
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
}
