//! Errors of fields: what is wrong, where, and the value that is wrong, in Kubernetes' words.
//!
//! A validation makes each error in one place with one of the constructors here and collects them in an
//! [`ErrorList`]; [`crate::status::Status::invalid`] makes the answer of them.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::go;
use crate::path::Path;

/// All that is wrong with an object, in the order in which it was found.
pub type ErrorList = Vec<Error>;

/// What sort of mistake a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorType {
    /// The value refers to something that is not there.
    NotFound,
    /// A value must be given.
    Required,
    /// The value may stand only once.
    Duplicate,
    /// The value is malformed.
    Invalid,
    /// The value is none of the possible ones.
    NotSupported,
    /// The value would be fine, but not here and now.
    Forbidden,
    /// The value has too many characters or bytes.
    TooLong,
    /// The list has too many items.
    TooMany,
    /// The list has too few items.
    TooFew,
    /// The value has too few characters.
    TooShort,
    /// The server could not check the field.
    Internal,
    /// The value has another type than the field.
    TypeInvalid,
}

/// A mistake in one field.
#[derive(Debug, Clone, PartialEq)]
pub struct Error {
    /// What sort of mistake.
    pub error_type: ErrorType,
    /// The path of the field.
    pub field: String,
    /// The value at fault; `None` where none is shown.
    pub bad_value: Option<Value>,
    /// How the value is shown, if not as it is: Kubernetes sometimes shows types of its own, in the order of their fields.
    pub shown: Option<String>,
    /// More about it; may be empty.
    pub detail: String,
}

// === impl ErrorType ===

impl ErrorType {
    /// The `reason` of the cause in a Status.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TooFew => "FieldValueTooFew",
            Self::TooShort => "FieldValueTooShort",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::TooFew => "Too few",
            Self::TooShort => "Too short",
            Self::Internal => "Internal error",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(self, Self::Required | Self::Forbidden | Self::TooLong | Self::TooShort | Self::Internal)
    }
}

// === impl Error ===

impl Error {
    fn new(error_type: ErrorType, field: &Path, bad_value: Option<Value>, detail: impl Into<String>) -> Self {
        Self { error_type, field: field.to_string(), bad_value, shown: None, detail: detail.into() }
    }

    /// The same mistake with the value shown as `text`.
    #[must_use]
    pub fn showing(mut self, text: impl Into<String>) -> Self {
        self.shown = Some(text.into());
        self
    }

    /// The message without the field, as it stands in a Status' causes.
    pub fn body(&self) -> String {
        let words = self.error_type.words();
        let mut text = match (&self.shown, &self.bad_value) {
            (Some(shown), _) => format!("{words}: {shown}"),
            (None, Some(value)) if self.error_type.shows_value() => format!("{words}: {}", show(value)),
            _ => words.to_owned(),
        };
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

impl std::error::Error for Error {}

fn show(value: &Value) -> String {
    match value {
        Value::String(text) => go::quote(text),
        Value::Number(number) if number.is_f64() => go::float(number.as_f64().unwrap_or_default()),
        other => go::json(other),
    }
}

/// A list of errors as one text: alone as it is, several in brackets, equal ones once.
pub fn aggregate(errors: &[Error]) -> String {
    let mut messages: Vec<String> = Vec::with_capacity(errors.len());
    for error in errors {
        let message = error.to_string();
        if !messages.contains(&message) {
            messages.push(message);
        }
    }
    match messages.len() {
        1 => messages.remove(0),
        _ => format!("[{}]", messages.join(", ")),
    }
}

fn value_of<T: Serialize + ?Sized>(value: &T) -> Option<Value> {
    Some(serde_json::to_value(value).unwrap_or_default())
}

/// A value must be given.
pub fn required(field: &Path, detail: impl Into<String>) -> Error {
    Error::new(ErrorType::Required, field, None, detail)
}

/// The value is malformed.
pub fn invalid<T: Serialize + ?Sized>(field: &Path, value: &T, detail: impl Into<String>) -> Error {
    Error::new(ErrorType::Invalid, field, value_of(value), detail)
}

/// The value has another type than the field.
pub fn type_invalid<T: Serialize + ?Sized>(field: &Path, value: &T, detail: impl Into<String>) -> Error {
    Error::new(ErrorType::TypeInvalid, field, value_of(value), detail)
}

/// The value is none of `supported`.
pub fn not_supported<T, S>(field: &Path, value: &T, supported: impl IntoIterator<Item = S>) -> Error
where
    T: Serialize + ?Sized,
    S: AsRef<str>,
{
    let supported: Vec<String> = supported.into_iter().map(|value| go::quote(value.as_ref())).collect();
    let detail =
        if supported.is_empty() { String::new() } else { format!("supported values: {}", supported.join(", ")) };
    Error::new(ErrorType::NotSupported, field, value_of(value), detail)
}

/// The value would be fine, but not here and now.
pub fn forbidden(field: &Path, detail: impl Into<String>) -> Error {
    Error::new(ErrorType::Forbidden, field, None, detail)
}

/// The value refers to something that is not there.
pub fn not_found<T: Serialize + ?Sized>(field: &Path, value: &T) -> Error {
    Error::new(ErrorType::NotFound, field, value_of(value), "")
}

/// The value may stand only once.
pub fn duplicate<T: Serialize + ?Sized>(field: &Path, value: &T) -> Error {
    Error::new(ErrorType::Duplicate, field, value_of(value), "")
}

/// The value has more than `max` bytes.
pub fn too_long(field: &Path, max: usize) -> Error {
    Error::new(ErrorType::TooLong, field, None, format!("may not be more than {max} {}", plural(max, "byte")))
}

/// The value has more than `max` characters.
pub fn too_long_characters(field: &Path, max: usize) -> Error {
    Error::new(ErrorType::TooLong, field, None, format!("may not be more than {max} {}", plural(max, "character")))
}

/// The value has fewer than `min` characters.
pub fn too_short(field: &Path, min: usize) -> Error {
    Error::new(ErrorType::TooShort, field, None, format!("must be at least {min} {}", plural(min, "character")))
}

/// The list has more than `max` items.
pub fn too_many(field: &Path, actual: usize, max: usize) -> Error {
    Error::new(ErrorType::TooMany, field, value_of(&actual), format!("must have at most {max} {}", plural(max, "item")))
}

/// The list has fewer than `min` items.
pub fn too_few(field: &Path, actual: usize, min: usize) -> Error {
    Error::new(ErrorType::TooFew, field, value_of(&actual), format!("must have at least {min} {}", plural(min, "item")))
}

/// The field could not be checked.
pub fn internal(field: &Path, error: impl fmt::Display) -> Error {
    Error::new(ErrorType::Internal, field, None, error.to_string())
}

fn plural(count: usize, word: &str) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_in_upstreams_words() {
        let path = Path::new("spec").child("type");
        assert_eq!(required(&path, "").to_string(), "spec.type: Required value");
        assert_eq!(
            not_supported(&path, "x", ["A", "B"]).to_string(),
            "spec.type: Unsupported value: \"x\": supported values: \"A\", \"B\""
        );
        assert_eq!(invalid(&path, &-1, "must be positive").body(), "Invalid value: -1: must be positive");
        assert_eq!(invalid(&path, &serde_json::json!({"b": null}), "no").body(), "Invalid value: {\"b\":null}: no");
        assert_eq!(too_long(&path, 1).body(), "Too long: may not be more than 1 byte");
        assert_eq!(too_many(&path, 3, 2).body(), "Too many: 3: must have at most 2 items");
        assert_eq!(duplicate(&path, "a").body(), "Duplicate value: \"a\"");
        assert_eq!(type_invalid(&path, "x", "d").error_type.reason(), "FieldValueTypeInvalid");
    }

    #[test]
    fn several_errors_stand_in_brackets_and_equal_ones_once() {
        let a = required(&Path::new("a"), "");
        let b = forbidden(&Path::new("b"), "no");
        assert_eq!(aggregate(&[a.clone(), a.clone()]), "a: Required value");
        assert_eq!(aggregate(&[a.clone(), b, a]), "[a: Required value, b: Forbidden: no]");
    }
}
