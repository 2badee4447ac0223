//! `Status`: the answer to a request that was refused, and the error type of every API call.
//!
//! - here: the object, and what its readers ask it.
//! - [`Reason`] and [`cause`]: the machine's words.
//! - `refusals`: the answers of the API server; `generic`: what a client makes of other answers. Both speak Kubernetes'
//!   words, so that clients which look at messages find what they know.

pub mod cause;
mod generic;
mod reason;
mod refusals;

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use reason::Reason;

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

// === impl Status ===

impl Status {
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
    use crate::field;
    use crate::gvk::{GroupResource, GroupVersionKind};
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
