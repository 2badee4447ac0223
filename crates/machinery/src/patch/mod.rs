//! Patches of objects: JSON patch (RFC 6902), merge patch (RFC 7386) and Kubernetes' strategic merge patch.
//!
//! Each is a function of two values. A patch that has not the form of one is refused with
//! [`Error::PatchForm`](crate::Error::PatchForm) (400), one that does not fit this object with
//! [`Error::PatchApply`](crate::Error::PatchApply) (422); see [`status`].

pub mod json;
pub mod merge;
pub mod strategic;

use crate::Error;
use crate::status::{Details, Status};

/// The answer to a patch that is refused.
pub fn status(error: &Error) -> Status {
    match error {
        Error::PatchForm(why) | Error::Json(why) => Status::bad_request(why.clone()),
        Error::PatchApply(_) => Status::unprocessable(Details::default()),
        Error::PatchTooLarge(why) => Status::request_entity_too_large(why),
        // Kubernetes lets these errors through as they are.
        other => Status::failure(500, crate::status::Reason::Unknown, other.to_string()),
    }
}
