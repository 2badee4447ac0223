//! Opening spans under an explicit parent.

use std::borrow::Cow;

use opentelemetry::trace::{Status, TraceContextExt, TraceId};
use opentelemetry::{Context, KeyValue, Value};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::TraceParent;
use crate::ids;

/// Whose child a span is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parent {
    /// The span that is current where it is started.
    #[default]
    Current,
    /// A span of another process, or of an earlier time.
    Remote(TraceParent),
    /// Nobody's: a new trace.
    Root,
    /// Nobody's, in the trace with this id. Several such roots may share a trace.
    RootWithTraceId([u8; 16]),
}

impl From<Option<TraceParent>> for Parent {
    /// A child of the given span, else a root.
    fn from(parent: Option<TraceParent>) -> Self {
        parent.map_or(Self::Root, Self::Remote)
    }
}

/// OpenTelemetry's kinds of span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Work inside a process.
    #[default]
    Internal,
    /// Serving a request.
    Server,
    /// Making a request.
    Client,
    /// Sending a message.
    Producer,
    /// Handling a message.
    Consumer,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Internal => "internal",
            Self::Server => "server",
            Self::Client => "client",
            Self::Producer => "producer",
            Self::Consumer => "consumer",
        }
    }
}

/// Starts an internal span. For its kind and attributes use [`span`].
pub fn start(name: impl Into<Cow<'static, str>>, parent: Parent, links: &[TraceParent]) -> tracing::Span {
    span(name).parent(parent).links(links).start()
}

/// Begins the description of a span; [`Builder::start`] starts it.
pub fn span(name: impl Into<Cow<'static, str>>) -> Builder {
    Builder {
        name: name.into(),
        parent: Parent::Current,
        kind: Kind::Internal,
        links: Vec::new(),
        attributes: Vec::new(),
    }
}

/// A span to be started.
#[derive(Debug)]
#[must_use = "a span that is not started records nothing"]
pub struct Builder {
    name: Cow<'static, str>,
    parent: Parent,
    kind: Kind,
    links: Vec<TraceParent>,
    attributes: Vec<KeyValue>,
}

impl Builder {
    /// Whose child it is; the current span's unless said otherwise.
    pub fn parent(mut self, parent: Parent) -> Self {
        self.parent = parent;
        self
    }

    /// Its kind.
    pub fn kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// A span that it has to do with but is no child of.
    pub fn link(mut self, link: TraceParent) -> Self {
        self.links.push(link);
        self
    }

    /// More of them.
    pub fn links(mut self, links: &[TraceParent]) -> Self {
        self.links.extend_from_slice(links);
        self
    }

    /// An attribute.
    pub fn attribute(mut self, key: &'static str, value: impl Into<Value>) -> Self {
        self.attributes.push(KeyValue::new(key, value));
        self
    }

    /// Starts it. The span ends when the last clone of it is dropped.
    pub fn start(self) -> tracing::Span {
        let name: &str = &self.name;
        let kind = self.kind.as_str();
        let span = match self.parent {
            Parent::Current => tracing::info_span!("span", otel.name = name, otel.kind = kind),
            _ => tracing::info_span!(parent: None, "span", otel.name = name, otel.kind = kind),
        };
        if span.is_disabled() {
            return span;
        }
        for attribute in self.attributes {
            span.set_attribute(attribute.key, attribute.value);
        }
        for link in self.links {
            span.add_link(link.to_context());
        }
        // Neither call fails: the span was made above and is not built yet, or there is no OpenTelemetry layer.
        match self.parent {
            Parent::Current => {}
            Parent::Remote(parent) => {
                let _ = span.set_parent(Context::new().with_remote_span_context(parent.to_context()));
            }
            Parent::Root => {
                let _ = span.set_parent(Context::new());
            }
            Parent::RootWithTraceId(id) => {
                let _ = span.set_parent(Context::new());
                ids::with_trace_id(TraceId::from_bytes(id), || span.context());
            }
        }
        span
    }
}

/// The name of the current span, if there is one.
#[must_use]
pub fn current() -> Option<TraceParent> {
    tracing::Span::current().trace_parent()
}

/// What can be said about a span after it has started.
pub trait SpanExt {
    /// Its name, for others to be children of.
    fn trace_parent(&self) -> Option<TraceParent>;
    /// Sets an attribute.
    fn attribute(&self, key: &'static str, value: impl Into<Value>);
    /// Adds a link.
    fn link(&self, link: TraceParent);
    /// Marks it as failed.
    fn fail(&self, why: impl Into<Cow<'static, str>>);
}

impl SpanExt for tracing::Span {
    fn trace_parent(&self) -> Option<TraceParent> {
        if self.is_disabled() {
            return None;
        }
        TraceParent::from_context(self.context().span().span_context())
    }

    fn attribute(&self, key: &'static str, value: impl Into<Value>) {
        self.set_attribute(key, value);
    }

    fn link(&self, link: TraceParent) {
        self.add_link(link.to_context());
    }

    fn fail(&self, why: impl Into<Cow<'static, str>>) {
        self.set_status(Status::error(why));
    }
}
