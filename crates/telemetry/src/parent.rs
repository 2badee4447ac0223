//! W3C `traceparent`: the name of one span, as it travels between processes.

use std::fmt;
use std::str::FromStr;

use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};
use serde::{Deserialize, Serialize};

/// The name of a span: trace id, span id and flags. Displays as, and parses from, W3C's `traceparent`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct TraceParent {
    trace_id: TraceId,
    span_id: SpanId,
    flags: u8,
}

/// A string that is no valid `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a W3C traceparent")]
pub struct InvalidTraceParent;

const SAMPLED: u8 = 1;

impl TraceParent {
    /// A parent from its parts; `None` when an id is all zero, which W3C forbids.
    #[must_use]
    pub fn new(trace_id: [u8; 16], span_id: [u8; 8], sampled: bool) -> Option<Self> {
        let (trace_id, span_id) = (TraceId::from_bytes(trace_id), SpanId::from_bytes(span_id));
        (trace_id != TraceId::INVALID && span_id != SpanId::INVALID).then_some(Self {
            trace_id,
            span_id,
            flags: u8::from(sampled),
        })
    }

    /// Parses a `traceparent` header; `None` when it is not one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let bytes = text.as_bytes();
        if bytes.len() < 55 || bytes[2] != b'-' || bytes[35] != b'-' || bytes[52] != b'-' {
            return None;
        }
        let version = lower_hex::<1>(&bytes[0..2])?[0];
        // Version ff is forbidden; version 00 has no more than these four fields, later ones may append some.
        if version == 0xff || (version == 0 && bytes.len() != 55) || (bytes.len() > 55 && bytes[55] != b'-') {
            return None;
        }
        let trace_id = lower_hex::<16>(&bytes[3..35])?;
        let span_id = lower_hex::<8>(&bytes[36..52])?;
        let flags = lower_hex::<1>(&bytes[53..55])?[0];
        Self::new(trace_id, span_id, flags & SAMPLED != 0)
    }

    /// The trace that the span belongs to.
    #[must_use]
    pub fn trace_id(&self) -> TraceId {
        self.trace_id
    }

    /// The span.
    #[must_use]
    pub fn span_id(&self) -> SpanId {
        self.span_id
    }

    /// Whether the trace is recorded.
    #[must_use]
    pub fn sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    pub(crate) fn from_context(context: &SpanContext) -> Option<Self> {
        context.is_valid().then(|| Self {
            trace_id: context.trace_id(),
            span_id: context.span_id(),
            flags: u8::from(context.is_sampled()),
        })
    }

    pub(crate) fn to_context(self) -> SpanContext {
        SpanContext::new(self.trace_id, self.span_id, TraceFlags::new(self.flags), true, TraceState::default())
    }
}

fn lower_hex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let mut out = [0u8; N];
    for (byte, pair) in out.iter_mut().zip(text.chunks_exact(2)) {
        *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
    }
    Some(out)
}

/// W3C allows lower case only.
fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

// === impl conversions ===

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace_id, self.span_id, self.flags)
    }
}

impl fmt::Debug for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for TraceParent {
    type Err = InvalidTraceParent;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text).ok_or(InvalidTraceParent)
    }
}

impl TryFrom<String> for TraceParent {
    type Error = InvalidTraceParent;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<TraceParent> for String {
    fn from(parent: TraceParent) -> Self {
        parent.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EXAMPLE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn the_example_of_the_standard() {
        let parent = TraceParent::parse(EXAMPLE).unwrap();
        assert_eq!(parent.to_string(), EXAMPLE);
        assert_eq!(parent.trace_id().to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(parent.span_id().to_string(), "00f067aa0ba902b7");
        assert!(parent.sampled());
        assert_eq!(serde_json::to_value(parent).unwrap(), EXAMPLE);
    }

    #[test]
    fn what_is_refused() {
        for bad in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4bf92f3577b34da6a3ce929d0e0e473-600f067aa0ba902b7-01",
        ] {
            assert_eq!(TraceParent::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn later_versions_may_append_fields() {
        let later = "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03-later";
        assert_eq!(TraceParent::parse(later).unwrap().to_string(), EXAMPLE);
        assert_eq!(TraceParent::parse(&later.replace("-later", "later")), None);
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_comes_back(text in "\\PC{0,70}") {
            if let Some(parent) = TraceParent::parse(&text) {
                prop_assert_eq!(TraceParent::parse(&parent.to_string()), Some(parent));
            }
        }

        #[test]
        fn every_parent_comes_back(trace in any::<[u8; 16]>(), span in any::<[u8; 8]>(), sampled: bool) {
            if let Some(parent) = TraceParent::new(trace, span, sampled) {
                prop_assert_eq!(TraceParent::parse(&parent.to_string()), Some(parent));
            }
        }
    }
}
