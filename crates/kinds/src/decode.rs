//! Decoding a request's body into an object of a kind.

use serde_json::Value;
use trireme_machinery::schema::decode::{DecodeError, Strictness, normalise, restore};
use trireme_machinery::status::Status;

use crate::Kind;

impl Kind {
    /// Decodes an object of this kind. The second part tells of fields that were dropped (`unknown field "spec.foo"`), if
    /// asked for. An object that does not fit is a bad request, in Kubernetes' words.
    #[allow(clippy::result_large_err, reason = "Status is the error of every API call")]
    pub fn decode(&self, value: Value, strictness: Strictness) -> Result<(Value, Vec<String>), Status> {
        let decoded = normalise(&self.schema, self.ty, value, strictness);
        self.named(decoded)
    }

    /// The same of an object that was put together from parts of one and a strategic merge patch.
    #[allow(clippy::result_large_err, reason = "Status is the error of every API call")]
    pub fn restore(&self, value: Value, strictness: Strictness) -> Result<(Value, Vec<String>), Status> {
        let restored = restore(&self.schema, self.ty, value, strictness);
        self.named(restored)
    }

    #[allow(clippy::result_large_err, reason = "Status is the error of every API call")]
    fn named(&self, decoded: Result<(Value, Vec<String>), DecodeError>) -> Result<(Value, Vec<String>), Status> {
        let (mut obj, strict) = decoded.map_err(|error| self.cannot_be_handled(&error))?;
        // What a client need not say: the request names it.
        if let Some(map) = obj.as_object_mut() {
            map.insert("apiVersion".to_owned(), self.api_version().into());
            map.insert("kind".to_owned(), self.kind.as_str().into());
        }
        Ok((obj, strict))
    }

    /// The refusal of a body that does not decode.
    pub fn cannot_be_handled(&self, error: &DecodeError) -> Status {
        Status::bad_request(format!(
            "{} in version \"{}\" cannot be handled as a {}: {error}",
            self.kind, self.version, self.kind
        ))
    }

    /// The refusal of a body with unknown or duplicate fields, where these are not allowed.
    pub fn strict_refusal(&self, errors: &[String]) -> Status {
        self.cannot_be_handled(&DecodeError(format!("strict decoding error: {}", errors.join(", "))))
    }
}
