//! The DeleteOptions in a body, decoded as strictly as upstream does: what is none must delete nothing.

use serde_json::Value;
use trireme_kinds::Registry;
use trireme_machinery::codec::{self, protobuf};
use trireme_machinery::gvk::split_api_version;
use trireme_machinery::schema::decode::{Strictness, normalise};
use trireme_machinery::status::Status;
use trireme_machinery::{Error, go};

use super::Request;
use super::decode::{PROTOBUF, format};
use super::options::media_type;

const KIND: &str = "DeleteOptions";
const TYPE: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
/// The version that a body has which names none.
const VERSION: &str = "meta.k8s.io/v1";
/// What upstream calls the register that it looks for the kind in.
const SCHEME: &str = "pkg/runtime/scheme.go:111";

/// What that register has besides DeleteOptions: in any version, and in [`VERSION`] alone.
const UNVERSIONED: [&str; 7] =
    ["CreateOptions", "UpdateOptions", "Status", "APIVersions", "APIGroupList", "APIGroup", "APIResourceList"];
const VERSIONED: [&str; 8] = [
    "ListOptions",
    "GetOptions",
    "PatchOptions",
    "WatchEvent",
    "Table",
    "TableOptions",
    "PartialObjectMetadata",
    "PartialObjectMetadataList",
];

/// The DeleteOptions in the request's body, if it has one.
pub(super) fn read(request: &Request) -> Result<Option<Value>, Status> {
    let body = &request.body;
    if body.is_empty() {
        return Ok(None);
    }
    let refused = |error: Error| Status::bad_request(parse_error(&error));
    let schema = Registry::builtin().schema();
    let ty = schema.find(TYPE).ok_or_else(|| Status::internal("DeleteOptions has no schema"))?;
    if media_type(&request.content_type) == PROTOBUF {
        let unknown = protobuf::open(body).map_err(refused)?;
        check_type(&unknown.api_version, &unknown.kind, body)?;
        return protobuf::decode(schema, ty, unknown.raw).map(Some).map_err(refused);
    }
    let value = codec::parse(format(&request.content_type)?, body).map_err(refused)?.value;
    let (api_version, kind) = codec::version_kind(&value).map_err(refused)?;
    check_type(api_version, kind, body)?;
    let (options, _) =
        normalise(schema, ty, value, Strictness::Ignore).map_err(|error| Status::bad_request(error.to_string()))?;
    Ok(Some(options))
}

fn parse_error(error: &Error) -> String {
    match error {
        Error::Json(why) => format!("couldn't get version/kind; json parse error: {why}"),
        other => other.to_string(),
    }
}

/// DeleteOptions may come in any version; no other kind may.
fn check_type(api_version: &str, kind: &str, body: &[u8]) -> Result<(), Status> {
    if api_version.matches('/').count() > 1 {
        return Err(Status::bad_request(format!("unexpected GroupVersion string: {api_version}")));
    }
    let kind = if kind.is_empty() { KIND } else { kind };
    if kind == KIND {
        return Ok(());
    }
    let api_version = match split_api_version(api_version) {
        ("", "") | ("meta.k8s.io", "") => VERSION,
        (_, "") => {
            let body = String::from_utf8_lossy(body);
            return Err(Status::bad_request(format!("Object 'apiVersion' is missing in '{body}'")));
        }
        _ => api_version.trim_start_matches('/'),
    };
    if UNVERSIONED.contains(&kind) || (api_version == VERSION && VERSIONED.contains(&kind)) {
        return Err(Status::bad_request(format!("converting (v1.{kind}) to (v1.{KIND}): unknown conversion")));
    }
    let (kind, version) = (go::quote(kind), go::quote(api_version));
    let why = format!("no kind {kind} is registered for version {version} in scheme {}", go::quote(SCHEME));
    Err(Status::bad_request(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(content_type: &str, body: &'static str) -> Option<String> {
        let request = Request { content_type: content_type.to_owned(), body: body.into(), ..Request::default() };
        read(&request).err().map(|status| {
            assert_eq!(status.code, 400, "{body}");
            status.message
        })
    }

    /// What upstream's own codec says of the same bodies.
    #[test]
    fn what_is_no_delete_options_is_refused() {
        for (body, told) in [
            (
                "garbage",
                "couldn't get version/kind; json parse error: invalid character 'g' looking for beginning of value",
            ),
            ("{}x", "couldn't get version/kind; json parse error: invalid character 'x' after top-level value"),
            (
                r#"{"kind":5}"#,
                "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind of type string",
            ),
            (r#"{"apiVersion":"a/b/c"}"#, "unexpected GroupVersion string: a/b/c"),
            (
                r#"{"apiVersion":"meta.k8s.io/v1","kind":"ListOptions"}"#,
                "converting (v1.ListOptions) to (v1.DeleteOptions): unknown conversion",
            ),
            (
                r#"{"apiVersion":"v1","kind":"Status"}"#,
                "converting (v1.Status) to (v1.DeleteOptions): unknown conversion",
            ),
            (
                r#"{"apiVersion":"v1","kind":"ListOptions"}"#,
                "no kind \"ListOptions\" is registered for version \"v1\" in scheme \"pkg/runtime/scheme.go:111\"",
            ),
            (
                r#"{"apiVersion":"apps/","kind":"Foo"}"#,
                "Object 'apiVersion' is missing in '{\"apiVersion\":\"apps/\",\"kind\":\"Foo\"}'",
            ),
            (
                r#"{"apiVersion":"/v1","kind":"Foo"}"#,
                "no kind \"Foo\" is registered for version \"v1\" in scheme \"pkg/runtime/scheme.go:111\"",
            ),
            (
                r#"{"preconditions":{"uid":5}}"#,
                "json: cannot unmarshal number into Go struct field Preconditions.preconditions.uid of type types.UID",
            ),
            (
                r#"{"preconditions":[]}"#,
                "json: cannot unmarshal array into Go struct field DeleteOptions.preconditions of type v1.Preconditions",
            ),
            (
                r#"{"preconditions":{"resourceVersion":1}}"#,
                "json: cannot unmarshal number into Go struct field Preconditions.preconditions.resourceVersion of type string",
            ),
            (
                r#"{"gracePeriodSeconds":1.5}"#,
                "json: cannot unmarshal number 1.5 into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
            ),
            (
                r#"{"propagationPolicy":5}"#,
                "json: cannot unmarshal number into Go struct field DeleteOptions.propagationPolicy of type v1.DeletionPropagation",
            ),
            (
                r#"{"dryRun":[5]}"#,
                "json: cannot unmarshal number into Go struct field DeleteOptions.dryRun of type string",
            ),
            (
                r#"{"orphanDependents":"yes"}"#,
                "json: cannot unmarshal string into Go struct field DeleteOptions.orphanDependents of type bool",
            ),
        ] {
            assert_eq!(refusal("application/json", body).as_deref(), Some(told), "{body}");
        }
        assert_eq!(
            refusal("application/yaml", "kind: Pod\napiVersion: v1"),
            refusal("", r#"{"kind":"Pod","apiVersion":"v1"}"#)
        );
        assert_eq!(
            refusal("application/yaml", "dryRun: All").as_deref(),
            Some("json: cannot unmarshal string into Go struct field DeleteOptions.dryRun of type []string")
        );
    }

    #[test]
    fn delete_options_are_taken_in_any_version() {
        for body in [
            "null",
            "{}",
            r#"{"apiVersion":"v9","kind":"DeleteOptions"}"#,
            r#"{"apiVersion":"v9"}"#,
            r#"{"apiVersion":"meta.k8s.io/","kind":"DeleteOptions"}"#,
            r#"{"preconditions":{"UID":"zz"}}"#,
            r#"{"orphanDependents":null,"propagationPolicy":null,"dryRun":null,"gracePeriodSeconds":null}"#,
        ] {
            assert_eq!(refusal("application/json", body), None, "{body}");
        }
    }
}
