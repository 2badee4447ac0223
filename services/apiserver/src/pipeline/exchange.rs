//! A request as a door hands it in, and an answer as the pipeline hands it back.

use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::Stream;
use serde_json::Value;
use trireme_kinds::Kind;
use trireme_machinery::status::Status;
use trireme_proto::resources::v1::Fence;
use trireme_telemetry::TraceParent;

use super::read::ListAnswer;
use super::watch::Watcher;
use super::{RequestInfo, Stored};
use crate::auth::Credentials;

/// One request, whichever door it came through.
#[derive(Debug, Default)]
pub struct Request {
    /// What is asked.
    pub info: RequestInfo,
    /// The query, decoded, in order; at the gRPC door the verb's options in the same form.
    pub query: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
    /// The body's media type, with its parameters; empty when it was not named.
    pub content_type: String,
    /// What the client takes, as its `Accept` has it.
    pub accept: String,
    /// Whether it takes answers that are compressed with gzip.
    pub gzip: bool,
    /// Who it claims to be.
    pub credentials: Credentials,
    /// Its `User-Agent`.
    pub user_agent: String,
    /// Where it came from.
    pub source: Option<IpAddr>,
    /// Its `Audit-ID`.
    pub audit_id: Option<String>,
    /// Its `traceparent`.
    pub traceparent: Option<TraceParent>,
    /// kubectl's `Kubectl-Session`.
    pub session: Option<String>,
    /// Its `If-None-Match`.
    pub if_none_match: Option<String>,
    /// The claim it writes under.
    pub fence: Option<Fence>,
}

// === impl Request ===

impl Request {
    /// The first value of a query parameter.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(k, _)| k == name).map(|(_, v)| v.as_str())
    }

    /// The query as it stands in a URL.
    pub fn query_string(&self) -> String {
        url::form_urlencoded::Serializer::new(String::new()).extend_pairs(&self.query).finish()
    }

    /// The one name that a field selector on `metadata.name` leaves: what authorization then asks about, as if the
    /// request named it.
    pub fn pinned_name(&self) -> Option<String> {
        let selector = trireme_machinery::fields::Selector::parse(self.param("fieldSelector")?).ok()?;
        selector.requires_exact("metadata.name").map(str::to_owned)
    }

    /// All values of a query parameter.
    pub fn params<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.query.iter().filter(move |(k, _)| k == name).map(|(_, v)| v.as_str())
    }
}

/// What comes back.
pub enum Answer {
    /// An object.
    Object(ObjectAnswer),
    /// A Status: of success (a delete) or of failure.
    Status(Box<Status>),
    /// Objects of a kind.
    List(Box<ListAnswer>),
    /// The events of a selection.
    Watch(Box<Watcher>),
    /// Bytes that are neither: health, metrics, discovery documents, logs.
    Raw(RawAnswer),
}

// === impl Answer ===

impl Answer {
    /// The HTTP status code.
    pub fn code(&self) -> u16 {
        match self {
            Self::Object(answer) => answer.code,
            Self::Status(status) if status.code > 0 => status.code,
            Self::Raw(raw) => raw.code,
            Self::Status(_) | Self::List(_) | Self::Watch(_) => 200,
        }
    }
}

/// An object and the code it goes out with.
#[derive(Debug)]
pub struct ObjectAnswer {
    /// 200, 201 or 202.
    pub code: u16,
    /// The kind of the object as it is asked for; None where no table of ours knows it.
    pub kind: Option<Arc<Kind>>,
    /// The object.
    pub object: ObjectBody,
}

/// An object, encoded already or not yet.
#[derive(Debug, Clone)]
pub enum ObjectBody {
    /// From the watch cache.
    Stored(Arc<Stored>),
    /// Made for this answer.
    Value(Value),
}

// === impl ObjectBody ===

impl ObjectBody {
    /// The object, parsed.
    pub fn value(&self) -> Value {
        match self {
            Self::Stored(stored) => stored.value(),
            Self::Value(value) => value.clone(),
        }
    }

    /// The object as JSON.
    pub fn encode(&self) -> Bytes {
        match self {
            Self::Stored(stored) => stored.encode(),
            Self::Value(value) => value.to_string().into(),
        }
    }
}

/// An answer that is not an API object.
#[derive(Debug)]
pub struct RawAnswer {
    /// The HTTP status code.
    pub code: u16,
    /// Its media type.
    pub content_type: String,
    /// More headers (`ETag`, `Cache-Control`, …).
    pub headers: Vec<(String, String)>,
    /// The bytes.
    pub body: Body,
}

/// Bytes, or a stream of them.
pub enum Body {
    /// All at once.
    Full(Bytes),
    /// As they come.
    Stream(Pin<Box<dyn Stream<Item = std::io::Result<Bytes>> + Send>>),
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(bytes) => write!(f, "Full({} bytes)", bytes.len()),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}
