//! Bodies into objects.

use serde_json::Value;
use trireme_kinds::{Kind, Registry};
use trireme_machinery::codec::{self, Format, Parsed, protobuf};
use trireme_machinery::gvk::{GroupVersionKind, split_api_version};
use trireme_machinery::schema::decode::Strictness;
use trireme_machinery::status::Status;
use trireme_machinery::{Error, go};

use super::options::{Validation, WriteOptions, media_type};
use super::{Context, Request, text};

/// What a body of an object may come as.
const ACCEPTED: [&str; 3] = ["application/json", "application/yaml", PROTOBUF];
pub(super) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Reads the request's body as an object of `kind`: decoded, defaulted, with what is odd about it said as
/// `fieldValidation` wants it.
pub fn body(context: &Context, kind: &Kind, request: &Request) -> Result<Value, Status> {
    let options = match request.info.verb.as_str() {
        "update" => WriteOptions::read(request, "UpdateOptions")?,
        _ => WriteOptions::read(request, "CreateOptions")?,
    };
    object(context, kind, request, options.validation)
}

/// The same with the options read before.
pub(crate) fn object(
    context: &Context,
    kind: &Kind,
    request: &Request,
    validation: Validation,
) -> Result<Value, Status> {
    let parsed = parse(kind, request)?;
    check_type(kind, &parsed.value, &request.body)?;
    let Parsed { value, duplicates, too_deep } = parsed;
    let (mut value, unknown) = decode(kind, value, validation.strictness())?;
    if too_deep && is_cut_off(&value) {
        return Err(codec::unrecognized(&kind.kind, &Error::Json(TOO_DEEP.to_owned()), &request.body));
    }
    let odd = match format(&request.content_type) {
        Ok(Format::Json) => text::in_order(&request.body, duplicates, unknown),
        // Of YAML all duplicates are told first, and then the fields of the JSON that was made of it, sorted.
        _ => duplicates.into_iter().chain(unknown).collect(),
    };
    match validation {
        Validation::Strict if !odd.is_empty() => return Err(kind.strict_refusal(&odd)),
        Validation::Warn => odd.into_iter().for_each(|text| context.warn(text)),
        Validation::Strict | Validation::Ignore => {}
    }
    kind.default(&mut value);
    Ok(value)
}

/// What upstream says of a body that nests deeper than it reads.
pub(crate) const TOO_DEEP: &str = "invalid character '{' exceeded max depth";

/// Whether something of a body was cut off that decoding kept: only where fields are free does anything nest so deep, and
/// there it would be lost.
pub(crate) fn is_cut_off(value: &Value) -> bool {
    fn reaches(value: &Value, depth: usize) -> bool {
        depth == 0
            || match value {
                Value::Array(list) => list.iter().any(|item| reaches(item, depth - 1)),
                Value::Object(map) => map.values().any(|item| reaches(item, depth - 1)),
                _ => false,
            }
    }
    // The null that stands for what was cut off may have been dropped, and the map around it then too.
    reaches(value, codec::KEPT_DEPTH - 2)
}

/// Decodes an object of the right type, and tells of the fields that were dropped. No defaults.
pub(crate) fn decode(kind: &Kind, value: Value, strictness: Strictness) -> Result<(Value, Vec<String>), Status> {
    Ok(completed(kind, kind.decode(value, strictness)?))
}

/// The same of what a strategic merge patch has put together.
pub(crate) fn restore(kind: &Kind, value: Value, strictness: Strictness) -> Result<(Value, Vec<String>), Status> {
    Ok(completed(kind, kind.restore(value, strictness)?))
}

fn completed(kind: &Kind, (mut value, unknown): (Value, Vec<String>)) -> (Value, Vec<String>) {
    if let Value::Object(map) = &mut value {
        map.insert("apiVersion".to_owned(), Value::String(kind.api_version()));
        map.insert("kind".to_owned(), Value::String(kind.kind.clone()));
        map.entry("metadata").or_insert_with(|| Value::Object(serde_json::Map::new()));
    }
    (value, unknown)
}

/// Reads the body of a request, whatever is in it.
pub(crate) fn parse(kind: &Kind, request: &Request) -> Result<Parsed, Status> {
    let body = &request.body;
    if media_type(&request.content_type) == PROTOBUF {
        let refused = |error: Error| codec::unrecognized(&kind.kind, &error, body);
        let unknown = protobuf::open(body).map_err(refused)?;
        let named = (unknown.api_version.as_str(), unknown.kind.as_str());
        let mut value = if named == (kind.api_version().as_str(), kind.kind.as_str()) {
            protobuf::decode(&kind.schema, kind.ty, unknown.raw).map_err(refused)?
        } else {
            // What it is decides its refusal.
            Value::Object(serde_json::Map::new())
        };
        value["apiVersion"] = Value::String(unknown.api_version);
        value["kind"] = Value::String(unknown.kind);
        return Ok(Parsed { value, duplicates: Vec::new(), too_deep: false });
    }
    codec::parse(format(&request.content_type)?, body).map_err(|error| codec::unrecognized(&kind.kind, &error, body))
}

/// The text format of a body by its media type.
pub(super) fn format(content_type: &str) -> Result<Format, Status> {
    match media_type(content_type) {
        "" | "application/json" => Ok(Format::Json),
        "application/yaml" => Ok(Format::Yaml),
        _ => Err(Status::unsupported_media_type(ACCEPTED)),
    }
}

/// The type that the object names has to be the one that the path wants.
fn check_type(kind: &Kind, value: &Value, body: &[u8]) -> Result<(), Status> {
    let (api_version, named) =
        codec::version_kind(value).map_err(|error: Error| codec::unrecognized(&kind.kind, &error, body))?;
    let wanted = kind.api_version();
    let api_version = if api_version.is_empty() { wanted.as_str() } else { api_version };
    let named = if named.is_empty() { kind.kind.as_str() } else { named };
    if api_version == wanted && named == kind.kind {
        return Ok(());
    }
    let (group, version) = split_api_version(api_version);
    let found = GroupVersionKind::new(group, version, named);
    let other = Registry::builtin().by_kind(group, version, named);
    if other.is_some_and(|other| other.group == kind.group && other.kind == kind.kind) {
        let why =
            format!("the API version in the data ({api_version}) does not match the expected API version ({wanted})");
        return Err(Status::bad_request(why));
    }
    let why = wrong_type(kind, api_version, named, "pkg/api/legacyscheme/scheme.go:30");
    Err(codec::cannot_be_handled(&found, &kind.kind, &why))
}

/// Why an object of another type is not one of this kind. `scheme` is what upstream calls the register it looks in.
pub(crate) fn wrong_type(kind: &Kind, api_version: &str, named: &str, scheme: &str) -> String {
    let (group, version) = split_api_version(api_version);
    let Some(other) = Registry::builtin().by_kind(group, version, named) else {
        let (named, version, scheme) = (go::quote(named), go::quote(api_version), go::quote(scheme));
        return format!("no kind {named} is registered for version {version} in scheme {scheme}");
    };
    let package = match kind.group.split('.').next().unwrap_or_default() {
        "" => "core",
        first => first,
    };
    format!("converting ({}.{}) to ({package}.{}): unknown conversion", other.version, other.kind, kind.kind)
}
