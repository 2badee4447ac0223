//! Events of `events.k8s.io`, in which Kubernetes' scheduler tells what it did: they have a time of microseconds and an
//! action, no first and last time (so what sorts by these puts them first), and what repeats is a series.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use serde_json::json;
use tokio::sync::mpsc;
use tracing::Instrument as _;
use trireme_telemetry::TraceParent;

use super::{EventType, Tries, WAITING, dropped, name, namespace_of, reference, span_of, tell_refusal};
use crate::client::Client;
use crate::clock::Clock;
use crate::error::Error;
use crate::object::Known;
use crate::params::{Patch, PatchParams, PostParams};
use crate::tasks::Tasks;

/// A series ends when nothing was added to it for so long; it is looked for as often.
const FINISH: SignedDuration = SignedDuration::from_mins(6);
/// One that goes on is written so often, lest it expire.
const REFRESH: Duration = Duration::from_secs(30 * 60);
/// So many events are remembered.
const REMEMBERED: usize = 4096;

/// Records events of `events.k8s.io`. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SeriesRecorder {
    send: mpsc::Sender<(Event, Option<TraceParent>)>,
    clock: Clock,
    controller: Arc<str>,
    instance: Arc<str>,
}

impl SeriesRecorder {
    /// A recorder of `controller` ("default-scheduler"), which runs as `instance` ("default-scheduler-host").
    #[must_use]
    pub fn new(client: &Client, controller: &str, instance: &str, clock: &Clock, tasks: &Tasks) -> Self {
        let (send, receive) = mpsc::channel(WAITING);
        let writer = Writer { client: client.clone(), clock: clock.clone(), told: Told::default() };
        tasks.spawn("events", writer.run(receive));
        Self { send, clock: clock.clone(), controller: controller.into(), instance: instance.into() }
    }

    /// Tells that `action` was done to an object, and what came of it; `related` is another that it was about.
    pub fn event<K: Known>(
        &self,
        object: &K,
        related: Option<ObjectReference>,
        kind: EventType,
        (reason, action): (&str, &str),
        note: impl Into<String>,
    ) {
        let (regarding, now) = (reference(object), self.clock.now());
        let event = Event {
            metadata: ObjectMeta {
                name: Some(name::of(regarding.name.as_deref().unwrap_or_default(), name::moment(now))),
                namespace: Some(namespace_of(&regarding)),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(now)),
            reporting_controller: Some(self.controller.to_string()),
            reporting_instance: Some(self.instance.to_string()),
            action: Some(action.to_owned()),
            reason: Some(reason.to_owned()),
            regarding: Some(regarding),
            related,
            note: Some(note.into()),
            type_: Some(kind.as_str().to_owned()),
            ..Event::default()
        };
        if self.send.try_send((event, trireme_telemetry::current())).is_err() {
            dropped();
        }
    }
}

/// What was told lately, so that what is told again counts. Pure.
#[derive(Debug, Default)]
struct Told(HashMap<String, Event>);

impl Told {
    /// One more event. The first is written, and that it became a series; then it is only counted.
    fn tell(&mut self, event: Event, now: Timestamp) -> Option<Event> {
        if self.0.len() > REMEMBERED {
            self.0.clear();
        }
        let Some(known) = self.0.get_mut(&same(&event)) else {
            self.0.insert(same(&event), event.clone());
            return Some(event);
        };
        let counted = known.series.as_ref().map(|series| series.count);
        let series = EventSeries { count: counted.unwrap_or(1).saturating_add(1), last_observed_time: MicroTime(now) };
        known.series = Some(series);
        counted.is_none().then(|| known.clone())
    }

    /// Forgets what is over; gives back the series among it, whose last count is not written.
    fn finish(&mut self, now: Timestamp) -> Vec<Event> {
        let over = |event: &mut Event| {
            let last = event.series.as_ref().map(|series| &series.last_observed_time).or(event.event_time.as_ref());
            last.is_none_or(|last| now.duration_since(last.0) > FINISH)
        };
        let ended = self.0.extract_if(|_, event| over(event)).map(|(_, event)| event);
        ended.filter(|event| event.series.is_some()).collect()
    }

    fn series(&self) -> Vec<Event> {
        self.0.values().filter(|event| event.series.is_some()).cloned().collect()
    }
}

/// Equal for events that differ only in time and words.
fn same(event: &Event) -> String {
    json!([event.type_, event.action, event.reason, event.regarding, event.related]).to_string()
}

struct Writer {
    client: Client,
    clock: Clock,
    told: Told,
}

impl Writer {
    async fn run(mut self, mut messages: mpsc::Receiver<(Event, Option<TraceParent>)>) {
        let start = tokio::time::Instant::now();
        let mut finish = tokio::time::interval_at(start + FINISH.unsigned_abs(), FINISH.unsigned_abs());
        let mut refresh = tokio::time::interval_at(start + REFRESH, REFRESH);
        loop {
            tokio::select! {
                message = messages.recv() => {
                    let Some((event, parent)) = message else { return };
                    if let Some(event) = self.told.tell(event, self.clock.now()) {
                        self.write(&event).instrument(span_of(parent)).await;
                    }
                }
                _ = finish.tick() => {
                    for event in self.told.finish(self.clock.now()) {
                        self.write(&event).await;
                    }
                }
                _ = refresh.tick() => {
                    for event in self.told.series() {
                        self.write(&event).await;
                    }
                }
            }
        }
    }

    async fn write(&self, event: &Event) {
        let (mut tries, reason) = (Tries::begin(), event.reason.as_deref().unwrap_or_default());
        loop {
            match tries.limit(self.try_write(event)).await {
                Ok(_) => return,
                Err(error) if error.is_outcome_unknown() => {
                    if !tries.again(&error, reason).await {
                        return;
                    }
                }
                // No other event has this name: it stands already.
                Err(error) if error.is_already_exists() => return,
                Err(error) => return tell_refusal(&error, reason),
            }
        }
    }

    async fn try_write(&self, event: &Event) -> Result<Event, Error> {
        let events = self.client.namespaced::<Event>(event.metadata.namespace.as_deref().unwrap_or_default());
        if let Some(series) = &event.series {
            let patch = Patch::Strategic(json!({ "series": series }));
            let name = event.metadata.name.as_deref().unwrap_or_default();
            match events.patch(name, &PatchParams::default(), &patch).await {
                // It expired: a new one.
                Err(error) if error.is_not_found() => {}
                other => return other,
            }
        }
        events.create(&PostParams::default(), event).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    fn event(note: &str, pod: &str) -> Event {
        Event {
            event_time: Some(MicroTime(at(0))),
            regarding: Some(ObjectReference { name: Some(pod.into()), ..ObjectReference::default() }),
            note: Some(note.into()),
            ..Event::default()
        }
    }

    #[test]
    fn what_repeats_is_a_series() {
        let mut told = Told::default();
        assert_eq!(told.tell(event("x", "a"), at(0)), Some(event("x", "a")));
        let written = told.tell(event("y", "a"), at(1)).unwrap();
        assert_eq!(written.note.as_deref(), Some("x"), "the words of the first");
        assert_eq!(written.series, Some(EventSeries { count: 2, last_observed_time: MicroTime(at(1)) }));
        assert_eq!(told.tell(event("x", "a"), at(2)), None, "only counted");
        assert!(told.tell(event("x", "b"), at(2)).is_some(), "another object");
        assert_eq!(told.series().len(), 1);
    }

    #[test]
    fn a_series_ends_with_its_last_count() {
        let mut told = Told::default();
        for second in 0..5 {
            told.tell(event("x", "a"), at(second));
        }
        told.tell(event("x", "b"), at(5));
        assert_eq!(told.finish(at(300)), [], "both may go on");
        let ended = told.finish(at(365));
        assert_eq!(ended.into_iter().map(|event| event.series.unwrap().count).collect::<Vec<_>>(), [5]);
        assert!(told.tell(event("x", "a"), at(366)).unwrap().series.is_none(), "a new one");
    }
}
