//! Content negotiation.

use trireme_machinery::status::{Details, Reason, Status};

/// The format of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// `application/json`.
    #[default]
    Json,
    /// `application/yaml`.
    Yaml,
}

/// What of the objects an answer shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Shape {
    /// The objects.
    #[default]
    Object,
    /// A Table, of this version of meta.k8s.io.
    Table(&'static str),
    /// Their metadata, of this version of meta.k8s.io.
    Metadata(&'static str),
}

/// How an answer is written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Form {
    /// As what.
    pub format: Format,
    /// Showing what.
    pub shape: Shape,
    /// With line breaks, for people.
    pub pretty: bool,
}

// === impl Format ===

impl Format {
    /// The media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
        }
    }
}

/// Chooses the form that the client likes best of those there are; 406 if it likes none. `list` says whether the answer
/// is a list.
pub fn negotiate(accept: &str, list: bool) -> Result<Form, Status> {
    if accept.trim().is_empty() {
        return Ok(Form::default());
    }
    let mut clauses: Vec<(f32, Form)> = accept.split(',').filter_map(|clause| read(clause, list)).collect();
    // Stable: of equals, the first.
    clauses.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    clauses.into_iter().next().map(|(_, form)| form).ok_or_else(not_acceptable)
}

fn read(clause: &str, list: bool) -> Option<(f32, Form)> {
    let mut parts = clause.split(';').map(str::trim);
    let format = match parts.next()? {
        "*/*" | "application/*" | "application/json" => Format::Json,
        "application/yaml" => Format::Yaml,
        _ => return None,
    };
    let (mut quality, mut kind, mut group, mut version, mut pretty) = (1.0, "", "", "", false);
    for part in parts {
        match part.split_once('=') {
            Some(("q", value)) => quality = value.parse().unwrap_or(1.0),
            Some(("as", value)) => kind = value,
            Some(("g", value)) => group = value,
            Some(("v", value)) => version = value,
            Some(("pretty", value)) => pretty = value == "1",
            _ => {}
        }
    }
    let shape = if kind.is_empty() {
        Shape::Object
    } else {
        let version = match (group, version) {
            ("meta.k8s.io", "v1") => "v1",
            ("meta.k8s.io", "v1beta1") => "v1beta1",
            _ => return None,
        };
        match kind {
            "Table" => Shape::Table(version),
            "PartialObjectMetadataList" if list => Shape::Metadata(version),
            "PartialObjectMetadata" if !list => Shape::Metadata(version),
            _ => return None,
        }
    };
    (quality > 0.0).then_some((quality, Form { format, shape, pretty }))
}

fn not_acceptable() -> Status {
    let message = "406: Not Acceptable\n\nAvailable representations: \
                   application/json, application/yaml, application/vnd.kubernetes.protobuf";
    Status::failure(406, Reason::NotAcceptable, message).with_details(Details::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_form_there_is_wins() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(negotiate(kubectl, true).unwrap().shape, Shape::Table("v1"));
        let client_go = "application/vnd.kubernetes.protobuf,application/json";
        assert_eq!(negotiate(client_go, true).unwrap(), Form::default());
        assert_eq!(negotiate("application/yaml", false).unwrap().format, Format::Yaml);
        assert_eq!(negotiate("application/json;q=0.1, application/yaml;q=0.9", false).unwrap().format, Format::Yaml);
        assert_eq!(negotiate("text/html, */*;q=0.1", false).unwrap(), Form::default());
        assert_eq!(negotiate("text/plain", false).unwrap_err().code(), 406);
    }

    #[test]
    fn metadata_is_asked_for_by_the_right_name() {
        let one = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
        assert_eq!(negotiate(one, false).unwrap().shape, Shape::Metadata("v1"));
        assert!(negotiate(one, true).is_err());
    }
}
