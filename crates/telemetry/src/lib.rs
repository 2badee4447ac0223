//! Traces, metrics and logs of a Trireme service, and the carrying of causes between services.
//!
//! What stands here:
//! - [`init`] sets a process up: `tracing` spans become OpenTelemetry spans sent over OTLP (tonic), logs go to
//!   standard error as text or JSON with the ids of the span they were written in, metrics are kept for a
//!   Prometheus page. Without a collector the spans still get ids and still travel; nothing is sent and nothing slows.
//! - [`TraceParent`] is W3C's `traceparent`; [`Cause`] is what a version in the store remembers of its trace.
//! - [`start`] and [`span`] open spans under an explicit parent: the current span, one of another process, none, or
//!   none but in a given trace (how all requests of one `kubectl` command land in one trace).
//! - [`grpc`] and [`http`] are the middleware of the two transports; [`Hop`] names the hops a cause travels, each of which
//!   can be cut with `TRIREME_TRACE_CUT` so that tests can show that the hop matters.
//! - [`spans::Recent`] keeps the last finished spans for `/debug/spans`; [`metrics_text`] renders `/metrics`.
//!
//! Invariants:
//! - Whether a trace is sampled is a function of its id alone, so every process of a cluster decides alike.
//! - Exporting happens on a thread of its own behind a bounded queue that drops; no caller ever waits for it.
//! - Nothing here is needed for correctness: a process that never calls [`init`] runs the same, only unseen.

mod cause;
pub mod grpc;
mod hop;
pub mod http;
mod ids;
mod init;
mod logs;
mod metrics_page;
mod parent;
mod sampling;
mod span;
pub mod spans;

pub use cause::Cause;
pub use hop::Hop;
pub use init::{Error, Guard, LogFormat, Settings, init};
pub use metrics_page::metrics_text;
pub use opentelemetry::trace::{SpanId, TraceId};
pub use parent::{InvalidTraceParent, TraceParent};
pub use span::{Builder, Kind, Parent, SpanExt, current, span, start};
