//! Patches: JSON, merge and strategic merge.

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Value;
use trireme_kinds::Kind;
use trireme_machinery::codec::{self, Format};
use trireme_machinery::field;
use trireme_machinery::go;
use trireme_machinery::gvk::GroupVersionKind;
use trireme_machinery::patch;
use trireme_machinery::path::Path;
use trireme_machinery::status::{Details, Reason, Status};

use super::options::{Validation, WriteOptions, media_type};
use super::text::{self, Text};
use super::update::Change;
use super::{Context, Request, decode};

/// What the bodies of patches come as.
const ACCEPTED: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

/// What complaints about the operations of a JSON patch begin with.
const OPERATIONS: &str = "json patch ";

enum Form {
    Json(patch::json::Patch),
    Merge,
    Strategic,
}

/// A patch of one request.
pub(crate) struct Patch<'a> {
    context: &'a Context,
    kind: &'a Kind,
    form: Form,
    body: Value,
    /// The body as it came: what is shown of the patched object follows its order.
    text: Bytes,
    /// Whether the body nests deeper than it was kept.
    too_deep: bool,
    /// What strict decoding minds about the patch itself.
    odd: Vec<String>,
    pub(crate) options: WriteOptions,
}

// === impl Patch ===

impl<'a> Patch<'a> {
    /// Reads the patch in a request's body.
    pub(crate) fn read(context: &'a Context, kind: &'a Kind, request: &Request) -> Result<Self, Status> {
        let form = media_type(&request.content_type);
        if !ACCEPTED.contains(&form) {
            return Err(unknown_form());
        }
        let options = WriteOptions::read(request, "PatchOptions")?;
        if !ACCEPTED[..3].contains(&form) {
            return Err(Status::unsupported_media_type(ACCEPTED));
        }
        let parsed =
            codec::parse(Format::Json, &request.body).map_err(|_| Status::bad_request("invalid JSON patch"))?;
        let mut odd = parsed.duplicates;
        let form = match form {
            "application/json-patch+json" => {
                let decoded = patch::json::Patch::decode(&parsed.value).map_err(|error| patch::status(&error))?;
                let unknown = decoded.complaints.iter().map(|text| text.trim_start_matches(OPERATIONS).to_owned());
                odd = text::in_order(&request.body, odd, unknown.collect());
                odd.iter_mut().for_each(|complaint| complaint.insert_str(0, OPERATIONS));
                Form::Json(decoded)
            }
            "application/merge-patch+json" => Form::Merge,
            _ => Form::Strategic,
        };
        Ok(Self {
            context,
            kind,
            form,
            body: parsed.value,
            text: request.body.clone(),
            too_deep: parsed.too_deep,
            odd,
            options,
        })
    }

    fn patched(&self, old: &Value) -> Result<Value, Status> {
        let patched = match &self.form {
            Form::Json(patch) => patch.apply(old),
            Form::Merge => patch::merge::apply(old, &self.body),
            Form::Strategic => patch::strategic::apply(old, &self.body, &self.kind.schema, self.kind.ty),
        };
        patched.map_err(|error| patch::status(&error))
    }

    /// The patched object, decoded and defaulted.
    fn applied(&self, old: &Value) -> Result<Value, Status> {
        let mut patched = self.patched(old)?;
        if matches!(self.form, Form::Strategic) {
            // Such a patch is made on the object's fields, of which its kind is none.
            trireme_machinery::meta::set_gvk(&mut patched, &self.kind.gvk());
        }
        if let (Some(kind), Some(api_version)) = (patched["kind"].as_str(), patched["apiVersion"].as_str())
            && (kind != self.kind.kind || api_version != self.kind.api_version())
        {
            let why = decode::wrong_type(self.kind, api_version, kind, "pkg/runtime/scheme.go:111");
            return Err(self.refused(old, &patched, &why));
        }
        let decode = if matches!(self.form, Form::Strategic) { decode::restore } else { decode::decode };
        let (mut value, unknown) = match decode(self.kind, patched.clone(), self.options.validation.strictness()) {
            Ok(decoded) => decoded,
            Err(status) => {
                let start = format!(
                    "{} in version \"{}\" cannot be handled as a {}: ",
                    self.kind.kind, self.kind.version, self.kind.kind
                );
                let why = status.message.strip_prefix(&start).unwrap_or(&status.message);
                return Err(self.refused(old, &patched, why));
            }
        };
        if self.too_deep && decode::is_cut_off(&value) {
            return Err(self.refused(old, &Value::Null, decode::TOO_DEEP));
        }
        let unknown = self.in_order(old, unknown);
        let odd: Vec<String> = self.odd.iter().cloned().chain(unknown).collect();
        match self.options.validation {
            Validation::Strict if !odd.is_empty() => {
                return Err(self.refused(old, &patched, &codec::strict_error(&odd)));
            }
            Validation::Warn => odd.into_iter().for_each(|text| self.context.warn(text)),
            Validation::Strict | Validation::Ignore => {}
        }
        self.kind.default(&mut value);
        Ok(value)
    }

    /// The refusal of what a patch makes of `old`.
    fn refused(&self, old: &Value, patched: &Value, why: &str) -> Status {
        let shown = match self.form {
            Form::Strategic => go::sprint(&self.body),
            Form::Json(_) | Form::Merge => self.shown(old).map_or_else(|| go::json(patched), |text| text.json()),
        };
        let error = field::invalid(&Path::new("patch"), &shown, why);
        Status::invalid(&GroupVersionKind::default(), "", vec![error])
    }

    /// The patched object as upstream would have written it.
    fn shown(&self, old: &Value) -> Option<Text> {
        let patch = Text::read(&self.text)?;
        let old = Text::of(old, &self.kind.schema, Some(self.kind.ty));
        Some(if matches!(self.form, Form::Merge) { old.merged(patch) } else { old.patched(&patch) })
    }

    /// Unknown fields in the order in which upstream tells them.
    fn in_order(&self, old: &Value, mut unknown: Vec<String>) -> Vec<String> {
        if unknown.len() < 2 {
            return unknown;
        }
        match self.form {
            // It is patched as a map, whose fields are told sorted.
            Form::Strategic => {
                unknown.sort();
                unknown
            }
            Form::Json(_) | Form::Merge => match self.shown(old) {
                Some(text) => text.in_order(Vec::new(), unknown),
                None => unknown,
            },
        }
    }
}

/// 415, as upstream's router says it, which knows the forms of patches before anybody reads one.
fn unknown_form() -> Status {
    Status::failure(415, Reason::UnsupportedMediaType, "415: Unsupported Media Type").with_details(Details::default())
}

/// The patch of a request, applied to `old` (an object of `kind` that is stored nowhere, as a Scale).
pub(crate) fn apply_patch(context: &Context, kind: &Kind, request: &Request, old: &Value) -> Result<Value, Status> {
    Patch::read(context, kind, request)?.applied(old)
}

#[async_trait]
impl Change for Patch<'_> {
    async fn apply(&mut self, old: Option<&Value>) -> Result<Value, Status> {
        self.applied(old.ok_or_else(|| Status::internal("a patch of nothing"))?)
    }

    fn creates(&self) -> bool {
        false
    }
}
