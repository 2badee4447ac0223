//! Patches: JSON, merge and strategic merge.

use async_trait::async_trait;
use serde_json::Value;
use trireme_kinds::Kind;
use trireme_machinery::codec::{self, Format};
use trireme_machinery::field;
use trireme_machinery::gvk::GroupVersionKind;
use trireme_machinery::patch;
use trireme_machinery::path::Path;
use trireme_machinery::status::Status;

use super::options::{Validation, media_type};
use super::update::Change;
use super::{Context, Request, decode};

/// What the bodies of patches come as.
const ACCEPTED: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

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
    /// What strict decoding minds about the patch itself.
    odd: Vec<String>,
    pub(crate) validation: Validation,
}

// === impl Patch ===

impl<'a> Patch<'a> {
    /// Reads the patch in a request's body.
    pub(crate) fn read(context: &'a Context, kind: &'a Kind, request: &Request) -> Result<Self, Status> {
        let form = media_type(&request.content_type);
        if !ACCEPTED[..3].contains(&form) {
            return Err(Status::unsupported_media_type(ACCEPTED));
        }
        let parsed = codec::parse(Format::Json, &request.body)
            .map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?;
        let mut odd = parsed.duplicates;
        let form = match form {
            "application/json-patch+json" => {
                let decoded = patch::json::Patch::decode(&parsed.value).map_err(|error| patch::status(&error))?;
                odd.extend(decoded.complaints.iter().cloned());
                Form::Json(decoded)
            }
            "application/merge-patch+json" => Form::Merge,
            _ => Form::Strategic,
        };
        Ok(Self { context, kind, form, body: parsed.value, odd, validation: Validation::default() })
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
            let why = format!("{kind} in version \"{api_version}\" cannot be handled as a {}", self.kind.kind);
            return Err(self.refused(&patched, &why));
        }
        let (mut value, unknown) = match decode::decode(self.kind, patched.clone(), self.validation.strictness()) {
            Ok(decoded) => decoded,
            Err(status) => {
                let start = format!(
                    "{} in version \"{}\" cannot be handled as a {}: ",
                    self.kind.kind, self.kind.version, self.kind.kind
                );
                let why = status.message.strip_prefix(&start).unwrap_or(&status.message);
                return Err(self.refused(&patched, why));
            }
        };
        let odd: Vec<String> = self.odd.iter().cloned().chain(unknown).collect();
        match self.validation {
            Validation::Strict if !odd.is_empty() => {
                return Err(self.refused(&patched, &codec::strict_error(&odd)));
            }
            Validation::Warn => odd.into_iter().for_each(|text| self.context.warn(text)),
            Validation::Strict | Validation::Ignore => {}
        }
        self.kind.default(&mut value);
        Ok(value)
    }

    /// The refusal of what a patch makes.
    fn refused(&self, patched: &Value, why: &str) -> Status {
        let shown = match self.form {
            Form::Strategic => go_value(&self.body),
            Form::Json(_) | Form::Merge => patched.to_string(),
        };
        let error = field::invalid(&Path::new("patch"), &shown, why);
        Status::invalid(&GroupVersionKind::default(), "", vec![error])
    }
}

/// The patch of a request, applied to `old` (an object of `kind` that is stored nowhere, as a Scale).
pub(crate) fn apply_patch(context: &Context, kind: &Kind, request: &Request, old: &Value) -> Result<Value, Status> {
    let mut patch = Patch::read(context, kind, request)?;
    patch.validation = super::options::WriteOptions::read(request, "PatchOptions")?.validation;
    patch.applied(old)
}

#[async_trait]
impl Change for Patch<'_> {
    async fn apply(&mut self, old: Option<&Value>) -> Result<Value, Status> {
        self.applied(old.ok_or_else(|| Status::bad_request("a patch needs an object"))?)
    }
}

/// A value as Go prints it (`%v`): `map[spec:map[replicas:2]]`.
fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_value).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let pairs: Vec<String> = map.iter().map(|(key, value)| format!("{key}:{}", go_value(value))).collect();
            format!("map[{}]", pairs.join(" "))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_print_as_gos() {
        assert_eq!(go_value(&json!({"b": [1, "x", null], "a": {}})), "map[a:map[] b:[1 x <nil>]]");
    }
}
