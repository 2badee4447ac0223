//! The store's side.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use trireme_proto::store::v1::BusMessage;
use trireme_telemetry::{Kind as SpanKind, Parent, SpanExt as _, TraceParent, span};

use crate::message::{Head, Kind, Wire};
use crate::transport::Bus;

/// How often the head is published.
pub const HEAD_EVERY: Duration = Duration::from_millis(250);
/// How many revisions wait to be sent; more are dropped.
const QUEUE: usize = 4096;

/// Says how far the leader is: `None` unless this member leads and a quorum confirmed it within the election timeout.
pub trait HeadSource: Fn() -> Option<Head> + Send + Sync + 'static {}
impl<F: Fn() -> Option<Head> + Send + Sync + 'static> HeadSource for F {}

/// Publishes what a member applied. Stops when it is dropped.
#[derive(Debug)]
pub struct Publisher {
    queue: mpsc::Sender<(BusMessage, Option<TraceParent>)>,
    task: JoinHandle<()>,
}

impl Publisher {
    pub(crate) fn start(bus: Bus, heads: impl HeadSource) -> Self {
        let (queue, waiting) = mpsc::channel(QUEUE);
        let task = tokio::spawn(run(bus, heads, waiting));
        Self { queue, task }
    }

    /// Publishes a revision, as a child of `parent` (the span that applied it). Never waits: with a full queue the
    /// message is dropped, and its readers find the gap.
    pub fn publish(&self, message: BusMessage, parent: Option<TraceParent>) {
        if self.queue.try_send((message, parent)).is_err() {
            metrics::counter!("trireme_bus_dropped_total", "reason" => "queue full").increment(1);
        }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(bus: Bus, heads: impl HeadSource, mut waiting: mpsc::Receiver<(BusMessage, Option<TraceParent>)>) {
    let mut tick = tokio::time::interval(HEAD_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            // Heads first: under load they must not wait for the queue.
            biased;
            _ = tick.tick() => if let Some(head) = heads() {
                let cluster_id = head.cluster_id;
                // A dropped head is followed by another.
                let _ = bus.send(cluster_id, Wire::new(head.into(), Kind::Head, None)).await;
            },
            next = waiting.recv() => match next {
                Some((message, parent)) => publish(&bus, message, parent).await,
                None => return,
            },
        }
    }
}

async fn publish(bus: &Bus, message: BusMessage, parent: Option<TraceParent>) {
    // Writes without a trace (leases, mostly) get no span of their own.
    let span = parent.map(|parent| {
        span("bus.publish")
            .kind(SpanKind::Producer)
            .parent(Parent::Remote(parent))
            .attribute("messaging.system", "nats")
            .attribute("trireme.revision", message.revision)
            .start()
    });
    let cluster_id = message.cluster_id;
    let parent = span.as_ref().and_then(|span| span.trace_parent());
    let wire = Wire::new(message, Kind::Revision, parent);
    if bus.send(cluster_id, wire).await.is_err() {
        metrics::counter!("trireme_bus_dropped_total", "reason" => "disconnected").increment(1);
        if let Some(span) = span {
            span.fail("the bus is disconnected");
        }
    } else {
        metrics::counter!("trireme_bus_published_total").increment(1);
    }
}
