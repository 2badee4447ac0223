//! Whose child a sync is (DESIGN 4).
//!
//! Until a Pod is first Ready, all that happens to it here is a child of what was wanted of it. What starts here later
//! (a container ends, a probe flips) opens a root of its own with a link.

use super::view;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::jiff::Timestamp;
use std::time::Duration;
use trireme_telemetry::{Cause, Hop, Parent, TraceParent};

/// A cause that is older is history: a reaction to it is no part of it (upstream of us: `--trace-window`).
const WINDOW: Duration = Duration::from_secs(600);

/// What a worker remembers of causes.
#[derive(Debug, Default)]
pub(super) struct Trace {
    intent: Option<TraceParent>,
    since: i64,
    fresh: bool,
    was_ready: bool,
    open: Option<tracing::Span>,
}

impl Trace {
    pub(super) fn new(status: &PodStatus) -> Self {
        Self { was_ready: is_ready(status), ..Self::default() }
    }

    /// Looks at the cause of the newest version.
    pub(super) fn see(&mut self, cause: &Cause) {
        let cause = cause.over(Hop::Informer);
        let (newest, at) = match (cause.intent, cause.cause) {
            (Some(intent), _) => (Some(intent), cause.intent_time),
            (None, write) => (write, cause.cause_time),
        };
        if newest.is_some() && newest != self.intent {
            (self.intent, self.since, self.fresh) = (newest, at, true);
            self.open = None;
        }
    }

    /// The span of the sync that is going on, opened when there is first something to do in it.
    pub(super) fn span(&mut self, pod: &Pod) -> tracing::Span {
        if let Some(open) = &self.open {
            return open.clone();
        }
        let name = format!("sync pod {}/{}", view::namespace(pod), view::name(pod));
        let age = Timestamp::now().as_nanosecond() - i128::from(self.since);
        let recent = u128::try_from(age).is_ok_and(|age| age < WINDOW.as_nanos()) || age < 0;
        let belongs = recent && (self.fresh || !self.was_ready);
        let (parent, links): (Parent, &[TraceParent]) = match &self.intent {
            Some(intent) if belongs => (Parent::Remote(*intent), &[]),
            Some(intent) => (Parent::Root, std::slice::from_ref(intent)),
            None => (Parent::Root, &[]),
        };
        let span = trireme_telemetry::span(name)
            .parent(parent)
            .links(links)
            .attribute("k8s.pod.uid", view::uid(pod).to_owned())
            .start();
        self.open = Some(span.clone());
        span
    }

    /// Notes what is about to be reported.
    pub(super) fn note(&mut self, status: &PodStatus) {
        // The report of the first readiness itself still belongs to the apply: it has its span by now.
        self.was_ready |= is_ready(status);
    }

    /// The sync is over; with nothing left to do, the newest wish is fulfilled.
    pub(super) fn settle(&mut self, fulfilled: bool) {
        self.open = None;
        self.fresh &= !fulfilled;
    }
}

fn is_ready(status: &PodStatus) -> bool {
    status.conditions.iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
