//! Span and trace ids: random, except that a root can be told its trace id.

use std::cell::Cell;

use opentelemetry::trace::{SpanId, TraceId};
use opentelemetry_sdk::trace::IdGenerator;

thread_local! {
    /// The trace id of the root span that this thread is building, if it was given one.
    static GIVEN: Cell<Option<TraceId>> = const { Cell::new(None) };
}

/// Random ids, unless [`with_trace_id`] gives one.
#[derive(Debug, Default)]
pub(crate) struct Ids;

impl IdGenerator for Ids {
    fn new_trace_id(&self) -> TraceId {
        GIVEN.take().unwrap_or_else(|| TraceId::from(rand::random::<u128>().max(1)))
    }

    fn new_span_id(&self) -> SpanId {
        SpanId::from(rand::random::<u64>().max(1))
    }
}

/// Runs `build`, which builds one root span on this thread; that root gets `trace_id`.
pub(crate) fn with_trace_id<T>(trace_id: TraceId, build: impl FnOnce() -> T) -> T {
    GIVEN.set((trace_id != TraceId::INVALID).then_some(trace_id));
    let built = build();
    GIVEN.set(None);
    built
}
