//! The store's spans (DESIGN 4): `kv.Txn` → `raft.propose` → `raft.replicate` → `mvcc.apply`, and from there
//! the bus's `bus.publish`.
//!
//! Only writes that came with a trace context are traced: that context goes with the command through the log, so the
//! spans on every member find their parent.
use std::sync::Arc;

use tracing::Span;
use trireme_telemetry::{Kind, Parent, SpanExt as _, TraceParent};

/// The span of a proposal, and its name for the others; nothing if the caller is not traced.
pub(crate) fn propose() -> (Span, Arc<str>) {
    if trireme_telemetry::current().is_none() {
        return (Span::none(), Arc::from(""));
    }
    let span = trireme_telemetry::start("raft.propose", Parent::Current, &[]);
    let name = name_of(&span);
    (span, name)
}

/// The sending of entries to a member, under the first traced proposal among them; the others are links.
pub(crate) fn replicate<'a>(peer: &str, parents: impl Iterator<Item = &'a Arc<str>>) -> Span {
    let mut parents = parents.filter_map(|p| TraceParent::parse(p));
    let Some(first) = parents.next() else { return Span::none() };
    let links: Vec<_> = parents.take(16).collect();
    let span = trireme_telemetry::span("raft.replicate").parent(Parent::Remote(first)).kind(Kind::Client);
    span.links(&links).attribute("peer", peer.to_owned()).start()
}

/// The application of one command.
pub(crate) fn apply(parent: &str) -> Span {
    TraceParent::parse(parent)
        .map_or_else(Span::none, |parent| trireme_telemetry::start("mvcc.apply", Parent::Remote(parent), &[]))
}

/// A span's name for others; empty if it is not recorded.
pub(crate) fn name_of(span: &Span) -> Arc<str> {
    span.trace_parent().map_or_else(|| Arc::from(""), |p| p.to_string().into())
}
