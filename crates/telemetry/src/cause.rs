//! What a version in the store remembers of the trace that wrote it.

use serde::{Deserialize, Serialize};

use crate::{Hop, TraceParent};

/// The trace context of a write, kept beside its revision and handed on with its watch event.
///
/// The *cause* is the span that wrote this version. The *intent* is the span that last wrote more than the status:
/// a write of status (or of managed fields) copies it from the version before. A reaction is a child of the intent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Cause {
    /// The span of the write itself.
    pub cause: Option<TraceParent>,
    /// The span of the newest write that changed what is wanted.
    pub intent: Option<TraceParent>,
    /// When the cause wrote, by the API server's clock, in nanoseconds since the epoch.
    pub cause_time: i64,
    /// When the intent wrote, by the API server's clock, in nanoseconds since the epoch.
    pub intent_time: i64,
    /// The writer sent no trace; the API server took the intent of the object or of its owner.
    pub inferred: bool,
}

impl Cause {
    /// A write by `span` at `time` (nanoseconds since the epoch) that is its own intent.
    #[must_use]
    pub fn intent(span: TraceParent, time: i64) -> Self {
        Self { cause: Some(span), intent: Some(span), cause_time: time, intent_time: time, inferred: false }
    }

    /// Nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cause.is_none() && self.intent.is_none()
    }

    /// This cause as it arrives after `hop`: unchanged, or empty when a test has cut that hop.
    #[must_use]
    pub fn over(self, hop: Hop) -> Self {
        if hop.is_cut() { Self::default() } else { self }
    }
}
