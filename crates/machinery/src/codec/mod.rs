//! Bodies: JSON and YAML in, JSON and YAML out, with the errors that Go's decoders give.
//!
//! What is parsed here is any JSON value; whether it fits a kind is [`crate::schema`]'s business.

pub mod json;
pub mod protobuf;
mod resolve;
pub mod yaml;
mod yaml_writer;

use serde_json::Value;

use crate::Error;
use crate::gvk::GroupVersionKind;
use crate::status::Status;

/// How deep a body may nest.
pub const MAX_DEPTH: usize = 10_000;

/// How deep a value is kept. No typed kind nests so deep, so what lies deeper is in a field that decoding drops; only
/// where unknown fields are preserved it would be lost, and such a body must be refused. Everything that walks over a
/// value may therefore recurse.
pub const KEPT_DEPTH: usize = 1_000;

/// A body, and what is odd about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The value; of a key that stands twice, the last.
    pub value: Value,
    /// The keys that stand twice, in the words of strict decoding (`duplicate field "data.k"`).
    pub duplicates: Vec<String>,
    /// Whether something lay below [`KEPT_DEPTH`]; null stands in its place.
    pub too_deep: bool,
}

/// The formats of bodies that this crate reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
}

/// Reads a body.
pub fn parse(format: Format, body: &[u8]) -> Result<Parsed, Error> {
    match format {
        Format::Json => json::parse(body),
        Format::Yaml => yaml::parse(body),
    }
}

/// Reads `apiVersion` and `kind`, which may both be missing, but not be anything else than text.
pub fn version_kind(value: &Value) -> Result<(&str, &str), Error> {
    const TYPE: &str =
        r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
    let refused = |found: &Value, into: String| {
        let kind = json::kind_of(found);
        Error::Json(format!("json: cannot unmarshal {kind} into Go {into}"))
    };
    let read = |name: &str| match value.get(name) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(other) => Err(refused(other, format!("struct field .{name} of type string"))),
    };
    match value {
        Value::Object(_) | Value::Null => Ok((read("apiVersion")?, read("kind")?)),
        other => Err(refused(other, format!("value of type {TYPE}"))),
    }
}

/// 400: the body is not even something with a version and a kind.
pub fn unrecognized(expected_kind: &str, error: &Error, body: &[u8]) -> Status {
    let why = match error {
        Error::Json(why) => format!("couldn't get version/kind; json parse error: {why}"),
        other => other.to_string(),
    };
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {expected_kind}): {why} ({})",
        summary(body)
    ))
}

/// 400: the body says what it is, and does not decode as that.
pub fn cannot_be_handled(found: &GroupVersionKind, expected_kind: &str, why: &str) -> Status {
    Status::bad_request(format!(
        "{} in version {} cannot be handled as a {expected_kind}: {why}",
        found.kind,
        crate::go::quote(&found.version)
    ))
}

/// What strict decoding says about everything that it minds.
pub fn strict_error(complaints: &[String]) -> String {
    format!("strict decoding error: {}", complaints.join(", "))
}

/// The start of a body, for error messages.
fn summary(body: &[u8]) -> String {
    const MAX: usize = 30;
    let start = &body[..body.len().min(MAX)];
    let more = if body.len() > MAX { " ..." } else { "" };
    match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(start)),
        Some(_) => format!("{}{more}", start.iter().map(|b| format!("{b:02x}")).collect::<String>()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bodies_that_are_not_objects_are_unrecognized() {
        let refuse = |body: &[u8]| {
            let error = json::parse(body).and_then(|parsed| version_kind(&parsed.value).map(|_| ())).unwrap_err();
            unrecognized("ConfigMap", &error, body).message
        };
        const START: &str = "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: ";
        assert_eq!(refuse(b""), format!("{START}unexpected end of JSON input (<empty>)"));
        assert_eq!(
            refuse(b"{nope"),
            format!("{START}invalid character 'n' looking for beginning of object key string ({{nope)")
        );
        assert_eq!(
            refuse(b"[1]"),
            format!(
                "{START}json: cannot unmarshal array into Go value of type struct {{ APIVersion string \
                 \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }} (5b315d)"
            )
        );
        let long = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}} x"#;
        assert_eq!(
            refuse(long),
            format!("{START}invalid character 'x' after top-level value ({{\"apiVersion\":\"v1\",\"kind\":\"Con ...)")
        );
        assert_eq!(
            version_kind(&json!({"kind": 5})).unwrap_err().to_string(),
            "json: cannot unmarshal number into Go struct field .kind of type string"
        );
    }
}
