//! The last finished spans of this process, for `/debug/spans`.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry::Context;
use opentelemetry::trace::{SpanId, SpanKind, Status};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};
use parking_lot::Mutex;
use serde::Serialize;

use crate::TraceParent;

/// How many spans are kept.
const KEPT: usize = 512;

/// A finished span.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finished {
    /// Its trace.
    pub trace_id: String,
    /// Its id.
    pub span_id: String,
    /// Its parent's id; absent for a root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_span_id: Option<String>,
    /// Its name.
    pub name: String,
    /// `internal`, `server`, `client`, `producer` or `consumer`.
    pub kind: &'static str,
    /// Start, in nanoseconds since the epoch.
    pub start_unix_nanos: u64,
    /// Length in microseconds.
    pub duration_micros: u64,
    /// What went wrong, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Its attributes.
    #[serde(skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub attributes: std::collections::BTreeMap<String, String>,
    /// The spans it links to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<TraceParent>,
}

/// A ring of the last finished spans. Clones share it.
#[derive(Clone, Debug)]
pub struct Recent {
    ring: Arc<Mutex<VecDeque<SpanData>>>,
    capacity: usize,
}

impl Recent {
    /// An empty ring of `capacity` spans.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { ring: Arc::default(), capacity }
    }

    /// The ring of this process.
    pub fn global() -> &'static Self {
        static RECENT: OnceLock<Recent> = OnceLock::new();
        RECENT.get_or_init(|| Self::new(KEPT))
    }

    /// The spans, oldest first; only those of `trace_id` (hexadecimal) if one is given.
    #[must_use]
    pub fn spans(&self, trace_id: Option<&str>) -> Vec<Finished> {
        let ring: Vec<SpanData> = self.ring.lock().iter().cloned().collect();
        ring.into_iter().map(Finished::from).filter(|span| trace_id.is_none_or(|id| span.trace_id == id)).collect()
    }

    fn push(&self, span: SpanData) {
        let mut ring = self.ring.lock();
        if ring.len() >= self.capacity {
            ring.pop_front();
        }
        ring.push_back(span);
    }
}

// === impl SpanProcessor ===

impl SpanProcessor for Recent {
    fn on_start(&self, _span: &mut Span, _context: &Context) {}

    fn on_end(&self, span: SpanData) {
        self.push(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }
}

// === impl Finished ===

impl From<SpanData> for Finished {
    fn from(span: SpanData) -> Self {
        let since = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            trace_id: span.span_context.trace_id().to_string(),
            span_id: span.span_context.span_id().to_string(),
            parent_span_id: (span.parent_span_id != SpanId::INVALID).then(|| span.parent_span_id.to_string()),
            name: span.name.into_owned(),
            kind: match span.span_kind {
                SpanKind::Server => "server",
                SpanKind::Client => "client",
                SpanKind::Producer => "producer",
                SpanKind::Consumer => "consumer",
                SpanKind::Internal => "internal",
            },
            start_unix_nanos: u64::try_from(since(span.start_time).as_nanos()).unwrap_or(u64::MAX),
            duration_micros: u64::try_from(
                span.end_time.duration_since(span.start_time).unwrap_or_default().as_micros(),
            )
            .unwrap_or(u64::MAX),
            error: match span.status {
                Status::Error { description } => Some(description.into_owned()),
                _ => None,
            },
            attributes: span.attributes.into_iter().map(|a| (a.key.to_string(), a.value.to_string())).collect(),
            links: span.links.links.iter().filter_map(|link| TraceParent::from_context(&link.span_context)).collect(),
        }
    }
}
