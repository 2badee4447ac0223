//! The options of the verbs, out of the query (and, of a delete, the body), checked in Kubernetes' words.

use std::time::Duration;

use serde_json::Value;
use trireme_machinery::field::{self, ErrorList};
use trireme_machinery::go;
use trireme_machinery::gvk::GroupVersionKind;
use trireme_machinery::path::Path;
use trireme_machinery::schema::decode::Strictness;
use trireme_machinery::status::{Reason, Status};

use super::Request;

/// What a list may show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// The state at exactly the revision.
    Exact,
    /// The state at the revision or later.
    NotOlderThan,
}

/// ListOptions, of a list or a watch.
#[derive(Debug, Clone, Default)]
pub struct ListOptions {
    /// The label selector as it came.
    pub label_selector: String,
    /// The field selector as it came.
    pub field_selector: String,
    /// Whether it is a watch.
    pub watch: bool,
    /// Whether bookmarks are welcome.
    pub bookmarks: bool,
    /// The revision: none, 0 (anything), or one.
    pub revision: Option<u64>,
    /// How the revision is meant.
    pub matching: Option<Match>,
    /// How long it may take, or how long a watch stands.
    pub timeout: Option<Duration>,
    /// How many objects; 0 is all.
    pub limit: usize,
    /// Where to go on.
    pub continue_token: String,
    /// Whether a watch begins with the objects there are.
    pub initial_events: Option<bool>,
}

/// What creates, updates and patches take.
#[derive(Debug, Clone, Default)]
pub struct WriteOptions {
    /// Do everything but write.
    pub dry_run: bool,
    /// Who owns the fields that are set; empty: the client's name.
    pub field_manager: String,
    /// What unknown and duplicate fields get.
    pub validation: Validation,
    /// Take fields over from other managers (apply only).
    pub force: bool,
}

/// What unknown and duplicate fields get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Validation {
    /// Nothing.
    Ignore,
    /// A warning.
    #[default]
    Warn,
    /// A refusal.
    Strict,
}

/// What becomes of the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// They stay.
    Orphan,
    /// They go later.
    Background,
    /// They go first.
    Foreground,
}

/// DeleteOptions.
#[derive(Debug, Clone, Default)]
pub struct DeleteOptions {
    /// Do everything but delete.
    pub dry_run: bool,
    /// Seconds until it is gone for good.
    pub grace: Option<i64>,
    /// The uid it must have.
    pub uid: Option<String>,
    /// The resourceVersion it must have.
    pub resource_version: Option<String>,
    /// The old form of the propagation.
    pub orphan_dependents: Option<bool>,
    /// What becomes of its dependents.
    pub propagation: Option<Propagation>,
}

// === impl ListOptions ===

impl ListOptions {
    /// Reads and checks the options of a list, a watch or a deletecollection.
    pub fn read(request: &Request) -> Result<Self, Status> {
        let watch = flag(request, "watch").unwrap_or(false) || request.info.verb == "watch";
        let limit = integer(request, "limit")?.unwrap_or(0);
        let timeout = integer(request, "timeoutSeconds")?;
        let initial_events = flag(request, "sendInitialEvents");
        let text = |name| request.param(name).unwrap_or_default().to_owned();
        let (version, matching, token) = (text("resourceVersion"), text("resourceVersionMatch"), text("continue"));
        let errors = if watch {
            check_watch(&matching, &token, initial_events)
        } else {
            check_list(&version, &matching, &token, initial_events)
        };
        refuse("ListOptions", errors)?;
        Ok(Self {
            label_selector: text("labelSelector"),
            field_selector: text("fieldSelector"),
            watch,
            bookmarks: flag(request, "allowWatchBookmarks").unwrap_or(false),
            revision: if watch { revision(&version) } else { list_revision(&version) }?,
            matching: match matching.as_str() {
                "Exact" => Some(Match::Exact),
                "NotOlderThan" => Some(Match::NotOlderThan),
                _ => None,
            },
            timeout: timeout.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs),
            limit: usize::try_from(limit).unwrap_or(0),
            continue_token: token,
            initial_events,
        })
    }
}

fn check_list(version: &str, matching: &str, token: &str, initial_events: Option<bool>) -> ErrorList {
    let at = Path::new("resourceVersionMatch");
    let mut errors = ErrorList::new();
    if !matching.is_empty() {
        if version.is_empty() {
            errors.push(field::forbidden(&at, "resourceVersionMatch is forbidden unless resourceVersion is provided"));
        }
        if !token.is_empty() {
            errors.push(field::forbidden(&at, "resourceVersionMatch is forbidden when continue is provided"));
        }
        if !matches!(matching, "Exact" | "NotOlderThan") {
            errors.push(field::not_supported(&at, &matching, ["Exact", "NotOlderThan", ""]));
        }
        if matching == "Exact" && version == "0" {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            errors.push(field::forbidden(&at, why));
        }
    }
    if initial_events.is_some() {
        errors.push(field::forbidden(&Path::new("sendInitialEvents"), "sendInitialEvents is forbidden for list"));
    }
    errors
}

fn check_watch(matching: &str, token: &str, initial_events: Option<bool>) -> ErrorList {
    let at = Path::new("resourceVersionMatch");
    let mut errors = ErrorList::new();
    if initial_events.is_some() && matching != "NotOlderThan" {
        let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        errors.push(field::forbidden(&at, why));
    }
    if !matching.is_empty() {
        if initial_events.is_none() {
            let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.push(field::forbidden(&at, why));
        }
        if matching != "NotOlderThan" {
            errors.push(field::not_supported(&at, &matching, ["NotOlderThan"]));
        }
        if !token.is_empty() {
            errors.push(field::forbidden(&at, "resourceVersionMatch is forbidden when continue is provided"));
        }
    }
    errors
}

// === impl WriteOptions ===

impl WriteOptions {
    /// Reads and checks the options of a create (`CreateOptions`), update (`UpdateOptions`) or patch (`PatchOptions`).
    pub fn read(request: &Request, kind: &str) -> Result<Self, Status> {
        let mut errors = ErrorList::new();
        let manager = request.param("fieldManager").unwrap_or_default();
        let patch_type = media_type(&request.content_type);
        let apply = kind == "PatchOptions" && patch_type == "application/apply-patch+yaml";
        let force = flag(request, "force").unwrap_or(false);
        if kind == "PatchOptions" {
            if apply && manager.is_empty() {
                errors.push(field::required(&Path::new("fieldManager"), "is required for apply patch"));
            }
            if !apply && request.param("force").is_some() {
                errors.push(field::forbidden(&Path::new("force"), "may not be specified for non-apply patch"));
            }
        }
        errors.extend(trireme_kinds::metadata::field_manager(manager, &Path::new("fieldManager")));
        errors.extend(check_dry_run(request.params("dryRun")));
        let validation = match request.param("fieldValidation").unwrap_or_default() {
            "" | "Warn" => Validation::Warn,
            "Ignore" => Validation::Ignore,
            "Strict" => Validation::Strict,
            other => {
                let at = Path::new("fieldValidation");
                errors.push(field::not_supported(&at, &other, ["", "Ignore", "Strict", "Warn"]));
                Validation::Warn
            }
        };
        refuse(kind, errors)?;
        Ok(Self {
            dry_run: request.params("dryRun").any(|value| value == "All"),
            field_manager: manager.to_owned(),
            validation,
            force,
        })
    }
}

// === impl Validation ===

impl Validation {
    /// How much decoding has to say.
    pub fn strictness(self) -> Strictness {
        match self {
            Self::Ignore => Strictness::Ignore,
            Self::Warn | Self::Strict => Strictness::Report,
        }
    }
}

// === impl Propagation ===

impl Propagation {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "Orphan" => Some(Self::Orphan),
            "Background" => Some(Self::Background),
            "Foreground" => Some(Self::Foreground),
            _ => None,
        }
    }
}

// === impl DeleteOptions ===

impl DeleteOptions {
    /// From the query and the body, a DeleteOptions object or nothing. The body goes before the query.
    pub fn read(request: &Request, body: Option<&Value>) -> Result<Self, Status> {
        if let Some(body) = body {
            return Self::from_value(body);
        }
        let mut errors = ErrorList::new();
        errors.extend(check_dry_run(request.params("dryRun")));
        let orphan = flag(request, "orphanDependents");
        let policy = request.param("propagationPolicy").filter(|policy| !policy.is_empty());
        errors.extend(check_propagation(orphan, policy));
        let options = Self {
            dry_run: request.params("dryRun").any(|value| value == "All"),
            grace: integer(request, "gracePeriodSeconds")?,
            uid: request.param("preconditions.uid").map(str::to_owned),
            resource_version: request.param("preconditions.resourceVersion").map(str::to_owned),
            orphan_dependents: orphan,
            propagation: policy.and_then(Propagation::parse),
        };
        refuse("DeleteOptions", errors)?;
        Ok(options)
    }

    /// From a DeleteOptions object.
    pub fn from_value(body: &Value) -> Result<Self, Status> {
        let mut errors = ErrorList::new();
        let dry_run: Vec<&str> = body["dryRun"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        errors.extend(check_dry_run(dry_run.iter().copied()));
        let orphan = body["orphanDependents"].as_bool();
        let policy = body["propagationPolicy"].as_str();
        errors.extend(check_propagation(orphan, policy));
        refuse("DeleteOptions", errors)?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Ok(Self {
            dry_run: dry_run.contains(&"All"),
            grace: body["gracePeriodSeconds"].as_i64(),
            uid: text(&body["preconditions"]["uid"]),
            resource_version: text(&body["preconditions"]["resourceVersion"]),
            orphan_dependents: orphan,
            propagation: policy.and_then(Propagation::parse),
        })
    }
}

fn check_propagation(orphan: Option<bool>, policy: Option<&str>) -> ErrorList {
    let at = Path::new("propagationPolicy");
    let mut errors = ErrorList::new();
    if let Some(policy) = policy {
        if orphan.is_some() {
            errors.push(field::invalid(&at, policy, "orphanDependents and deletionPropagation cannot be both set"));
        }
        if Propagation::parse(policy).is_none() {
            errors.push(field::not_supported(&at, &policy, ["Foreground", "Background", "Orphan", "nil"]));
        }
    }
    errors
}

/// All values are shown if one is wrong.
fn check_dry_run<'a>(values: impl Iterator<Item = &'a str>) -> ErrorList {
    let values: Vec<&str> = values.collect();
    if values.iter().all(|value| *value == "All") {
        return ErrorList::new();
    }
    vec![field::not_supported(&Path::new("dryRun"), &values, ["All"])]
}

fn refuse(kind: &str, errors: ErrorList) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&GroupVersionKind::new("meta.k8s.io", "", kind), "", errors))
}

/// A media type without its parameters.
pub fn media_type(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

/// A boolean of the query as Kubernetes reads it: anything but `false` and `0` is true.
pub fn flag(request: &Request, name: &str) -> Option<bool> {
    request.param(name).map(|value| !(value.eq_ignore_ascii_case("false") || value == "0"))
}

fn integer(request: &Request, name: &str) -> Result<Option<i64>, Status> {
    let Some(text) = request.param(name) else { return Ok(None) };
    parse_integer(text).map(Some)
}

fn parse_integer(text: &str) -> Result<i64, Status> {
    text.parse().map_err(|error: std::num::ParseIntError| {
        use std::num::IntErrorKind::{NegOverflow, PosOverflow};
        let why = match error.kind() {
            PosOverflow | NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        Status::bad_request(format!("strconv.ParseInt: parsing {}: {why}", go::quote(text)))
    })
}

/// A resourceVersion of the query.
pub fn revision(text: &str) -> Result<Option<u64>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    let refused = |why: String| {
        let why = format!("resourceVersion: Invalid value: {}: {why}", go::quote(text));
        Status::failure(500, Reason::Unknown, why)
    };
    parse_unsigned(text).map(Some).map_err(refused)
}

/// The same of a list: only lists have a good word for it.
fn list_revision(text: &str) -> Result<Option<u64>, Status> {
    revision(text).map_err(|refusal| Status::bad_request(format!("invalid resource version: {}", refusal.message)))
}

/// A number as Go's `strconv.ParseUint` reads it.
pub(crate) fn parse_unsigned(text: &str) -> Result<u64, String> {
    let quoted = go::quote(text);
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("strconv.ParseUint: parsing {quoted}: invalid syntax"));
    }
    text.parse().map_err(|_| format!("strconv.ParseUint: parsing {quoted}: value out of range"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(query: &[(&str, &str)]) -> Request {
        let query = query.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Request { query, ..Request::default() }
    }

    #[test]
    fn list_options_are_refused_in_upstreams_words() {
        let refusal = |query: &[(&str, &str)]| ListOptions::read(&request(query)).unwrap_err().message;
        assert_eq!(
            refusal(&[("resourceVersion", "0"), ("resourceVersionMatch", "Exact")]),
            "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: \
             resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""
        );
        assert_eq!(refusal(&[("limit", "abc")]), "strconv.ParseInt: parsing \"abc\": invalid syntax");
        assert!(refusal(&[("resourceVersion", "abc")]).starts_with("invalid resource version: "));
        assert!(refusal(&[("watch", "1"), ("sendInitialEvents", "true")]).contains("requires setting"));
    }

    #[test]
    fn the_body_of_a_delete_goes_before_its_query() {
        let request = request(&[("gracePeriodSeconds", "3"), ("propagationPolicy", "Orphan")]);
        let from_query = DeleteOptions::read(&request, None).unwrap();
        assert_eq!((from_query.grace, from_query.propagation), (Some(3), Some(Propagation::Orphan)));
        let body = serde_json::json!({"preconditions": {"uid": "u"}, "dryRun": ["All"]});
        let from_body = DeleteOptions::read(&request, Some(&body)).unwrap();
        assert_eq!((from_body.grace, from_body.uid.as_deref(), from_body.dry_run), (None, Some("u"), true));
    }
}
