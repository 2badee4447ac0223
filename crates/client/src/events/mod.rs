//! Events: what a component tells people about an object. Like upstream's, the recorder adds up what repeats: the same
//! event is one object whose count grows; many similar ones become one that says so; and an object that is told about
//! without end is told about less. Nobody waits for an event to be written, and one that cannot be within some time is
//! dropped, as are those that find too many before them; `trireme_events_dropped_total` counts both.

mod correlate;
mod name;
mod series;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::Instrument as _;
use trireme_telemetry::{Parent, TraceParent};

use crate::backoff::Backoff;
use crate::client::Client;
use crate::clock::Clock;
use crate::error::Error;
use crate::object::Known;
use crate::params::{Patch, PatchParams, PostParams};
use crate::tasks::Tasks;
pub use series::SeriesRecorder;

use correlate::{Correlator, Told};

/// Events that wait to be written; more are dropped.
const WAITING: usize = 1000;
/// So long an event that fails may hold up those behind it. One that the server answers with a failure each time is about
/// itself, and the next may well be written.
const FAILING: Duration = Duration::from_secs(5);
/// While the server is not reached no other could be written either: upstream's twelve tries, ten seconds apart.
const AWAY: Duration = Duration::from_secs(120);

/// Of what kind an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// All is well.
    Normal,
    /// Something needs a look.
    Warning,
}

impl EventType {
    /// As events have it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        }
    }
}

#[derive(Debug)]
struct Message {
    object: ObjectReference,
    kind: EventType,
    reason: String,
    text: String,
    time: Timestamp,
    /// See [`name::moment`].
    moment: i64,
    span: Option<TraceParent>,
}

/// Records events of one component. Cheap to clone.
#[derive(Debug, Clone)]
pub struct EventRecorder {
    send: mpsc::Sender<Message>,
    clock: Clock,
}

impl EventRecorder {
    /// A recorder of `component` ("deployment-controller") on `host` (empty for what has no node).
    #[must_use]
    pub fn new(client: &Client, component: &str, host: &str, clock: &Clock, tasks: &Tasks) -> Self {
        let (send, receive) = mpsc::channel(WAITING);
        let writer = Writer {
            client: client.clone(),
            source: EventSource {
                component: Some(component.to_owned()),
                host: Some(host.to_owned()).filter(|h| !h.is_empty()),
            },
            correlator: Correlator::default(),
        };
        tasks.spawn("events", writer.run(receive));
        Self { send, clock: clock.clone() }
    }

    /// Tells something about an object.
    pub fn event<K: Known>(&self, object: &K, kind: EventType, reason: &str, text: impl Into<String>) {
        self.event_for(reference(object), kind, reason, text);
    }

    /// Tells something about what a reference names.
    pub fn event_for(&self, object: ObjectReference, kind: EventType, reason: &str, text: impl Into<String>) {
        let message = Message {
            object,
            kind,
            reason: reason.to_owned(),
            text: text.into(),
            time: self.clock.now_seconds(),
            moment: name::moment(self.clock.now()),
            span: trireme_telemetry::current(),
        };
        if self.send.try_send(message).is_err() {
            dropped();
        }
    }
}

/// The reference of an object.
#[must_use]
pub fn reference<K: Known>(object: &K) -> ObjectReference {
    let (resource, meta) = (K::resource(), object.meta());
    ObjectReference {
        api_version: Some(resource.api_version()),
        kind: Some(resource.kind),
        namespace: meta.namespace.clone(),
        name: meta.name.clone(),
        uid: meta.uid.clone(),
        resource_version: meta.resource_version.clone(),
        field_path: None,
    }
}

struct Writer {
    client: Client,
    source: EventSource,
    correlator: Correlator,
}

impl Writer {
    async fn run(mut self, mut messages: mpsc::Receiver<Message>) {
        while let Some(message) = messages.recv().await {
            let span = span_of(message.span);
            self.write(message).instrument(span).await;
        }
    }

    async fn write(&mut self, message: Message) {
        let key = correlate::key(&message.object, message.kind.as_str(), &message.reason);
        let Some(told) = self.correlator.tell(&key, &message.text, message.time) else { return };
        let name = name::of(message.object.name.as_deref().unwrap_or_default(), message.moment);
        let mut tries = Tries::begin();
        loop {
            match tries.limit(self.try_write(&message, &told, &name)).await {
                Ok(written) => {
                    self.correlator.written(&key, &told, written.metadata.name.unwrap_or_default());
                    return;
                }
                Err(error) if error.is_outcome_unknown() => {
                    if !tries.again(&error, &message.reason).await {
                        return;
                    }
                }
                // No other event has this name: an earlier try was done, only its answer was lost.
                Err(error) if tries.tried > 0 && error.is_already_exists() => {
                    self.correlator.written(&key, &told, name);
                    return;
                }
                Err(error) => return tell_refusal(&error, &message.reason),
            }
        }
    }

    async fn try_write(&self, message: &Message, told: &Told, name: &str) -> Result<Event, Error> {
        let namespace = namespace_of(&message.object);
        let events = self.client.namespaced::<Event>(&namespace);
        if let Some(known) = &told.name {
            let patch = json!({
                "count": told.count,
                "lastTimestamp": Time(message.time),
                "message": told.text,
            });
            match events.patch(known, &PatchParams::default(), &Patch::Strategic(patch)).await {
                // It expired: a new one.
                Err(error) if error.is_not_found() => {}
                other => return other,
            }
        }
        let time = Some(Time(message.time));
        let event = Event {
            metadata: ObjectMeta { name: Some(name.to_owned()), namespace: Some(namespace), ..ObjectMeta::default() },
            involved_object: message.object.clone(),
            reason: Some(message.reason.clone()),
            message: Some(told.text.clone()),
            type_: Some(message.kind.as_str().to_owned()),
            source: Some(self.source.clone()),
            reporting_component: self.source.component.clone(),
            reporting_instance: self.source.host.clone(),
            first_timestamp: time.clone(),
            last_timestamp: time,
            count: Some(told.count),
            ..Event::default()
        };
        events.create(&PostParams::default(), &event).await
    }
}

/// Events of what has no namespace are in the default one.
fn namespace_of(object: &ObjectReference) -> String {
    object.namespace.clone().filter(|n| !n.is_empty()).unwrap_or_else(|| "default".to_owned())
}

/// Within the trace of what it tells about, but only if there is one.
fn span_of(parent: Option<TraceParent>) -> tracing::Span {
    match parent {
        Some(parent) => trireme_telemetry::start("record event", Parent::Remote(parent), &[]),
        None => tracing::Span::none(),
    }
}

fn dropped() {
    metrics::counter!("trireme_events_dropped_total").increment(1);
}

/// The tries to write one event.
struct Tries {
    began: Instant,
    wait: Backoff,
    tried: u32,
}

impl Tries {
    fn begin() -> Self {
        let wait = Backoff::new(Duration::from_millis(100), Duration::from_secs(10));
        Self { began: Instant::now(), wait, tried: 0 }
    }

    /// One try, which a server that does not answer holds up no longer than one that fails.
    async fn limit<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        tokio::time::timeout(FAILING, call).await.unwrap_or_else(|_| Err(Error::disconnected("no answer")))
    }

    /// Waits before the next try; false: there is none, the event is dropped.
    async fn again(&mut self, error: &Error, reason: &str) -> bool {
        self.tried += 1;
        let (patience, wait) = (if error.status().is_some() { FAILING } else { AWAY }, self.wait.wait());
        if self.began.elapsed() + wait > patience {
            tracing::info!(%error, reason, tried = self.tried, "an event was dropped");
            dropped();
            return false;
        }
        tokio::time::sleep(wait).await;
        true
    }
}

/// A namespace that goes away takes no events: that is no news.
fn tell_refusal(error: &Error, reason: &str) {
    if !error.is_namespace_terminating() && !error.is_not_found() {
        tracing::info!(%error, reason, "an event was refused");
    }
}

#[cfg(test)]
mod tests {
    use trireme_machinery::status::Status;

    use super::*;

    async fn given_up_after(error: impl Fn() -> Error) -> Duration {
        let begun = Instant::now();
        let mut tries = Tries::begin();
        while tries.again(&error(), "Reason").await {}
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_that_fails_holds_nobody_up_for_long() {
        let failing = given_up_after(|| Status::internal("no").into()).await;
        assert!(failing <= FAILING && failing > FAILING / 4, "{failing:?}");
        let away = given_up_after(|| Error::disconnected("gone")).await;
        assert!(
            away <= AWAY && away > AWAY - Duration::from_secs(20),
            "a restart of the server is waited for: {away:?}"
        );
        let tries = Tries::begin();
        let silent = tries.limit(std::future::pending::<Result<(), Error>>());
        assert!(silent.await.unwrap_err().is_outcome_unknown());
    }
}
