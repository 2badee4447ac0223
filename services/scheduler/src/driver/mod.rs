//! The scheduling actor: it alone owns cache and queue, hears what happens, tries one pod after the other, and hands
//! what takes time (binding, telling) to tasks that report back.
//!
//! Only the holder of the claim schedules; the others listen, so that they know the cluster when it is their turn.

mod attempt;
mod bind;
mod feed;
mod replicas;
mod report;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use tokio::sync::mpsc;
use tokio::time::Instant;
use trireme_client::{Claim, Client, Clock, Fence, SeriesRecorder, Subscription, Tasks};

use crate::algorithm::{AtRandom, TieBreak};
use crate::cache::Cache;
use crate::plugins::Profile;
use crate::queue::{Queue, Waiting};

use feed::Informers;

/// So many bindings may be on the way at once; so many reports wait, and who has one more waits too.
const BINDINGS: usize = 100;
/// When nothing else happens, the actor looks up this often.
const IDLE: Duration = Duration::from_secs(30);

/// What the actor needs of its service.
pub(crate) struct Parts {
    pub(crate) client: Client,
    pub(crate) claim: Claim,
    pub(crate) clock: Clock,
    pub(crate) tasks: Tasks,
    pub(crate) scheduler_name: String,
    pub(crate) host_name: String,
    pub(crate) trace_window: Duration,
}

/// What tasks report.
enum Report {
    /// All informers have seen the claim of this epoch.
    Fresh(i64),
    /// The pod is bound.
    Bound { uid: String },
    /// It could not be bound.
    NotBound { waiting: Box<Waiting>, gone: bool, why: String },
}

pub(crate) struct Scheduler {
    parts: Parts,
    informers: Informers,
    recorder: SeriesRecorder,
    profile: Profile,
    ties: Box<dyn TieBreak>,
    cache: Cache,
    queue: Queue,
    /// Where the next search through the nodes begins.
    start: usize,
    /// The epoch that is scheduled under.
    leading: Option<i64>,
    bindings: usize,
    reports: mpsc::Sender<Report>,
}

/// What the actor hears.
struct Ears {
    pods: Subscription<Pod>,
    nodes: Subscription<Node>,
    namespaces: Subscription<Namespace>,
    reports: mpsc::Receiver<Report>,
}

// === impl Scheduler ===

impl Scheduler {
    /// Starts the actor.
    pub(crate) fn start(parts: Parts) {
        let informers = Informers::start(&parts.client, &parts.tasks);
        let (reports, hear) = mpsc::channel(BINDINGS);
        let ears = Ears {
            pods: informers.pods.subscribe(),
            nodes: informers.nodes.subscribe(),
            namespaces: informers.namespaces.subscribe(),
            reports: hear,
        };
        let instance = format!("{}-{}", parts.scheduler_name, parts.host_name);
        let recorder = SeriesRecorder::new(&parts.client, &parts.scheduler_name, &instance, &parts.clock, &parts.tasks);
        let tasks = parts.tasks.clone();
        let scheduler = Self {
            parts,
            informers,
            recorder,
            profile: Profile::default(),
            ties: Box::new(AtRandom),
            cache: Cache::default(),
            queue: Queue::default(),
            start: 0,
            leading: None,
            bindings: 0,
            reports,
        };
        tasks.spawn("scheduler", scheduler.run(ears));
    }

    async fn run(mut self, mut ears: Ears) {
        let mut claim = self.parts.claim.watch();
        self.claim_changed();
        loop {
            let ready = self.leading.is_some() && self.bindings < BINDINGS && self.queue.has_next(Instant::now());
            let wait = self.next_due();
            tokio::select! {
                biased;
                changed = claim.changed() => match changed {
                    Ok(()) => self.claim_changed(),
                    Err(_) => return,
                },
                Some(event) = ears.nodes.recv() => self.node(event),
                Some(event) = ears.namespaces.recv() => self.namespace(event),
                Some(event) = ears.pods.recv() => self.pod(event),
                Some(report) = ears.reports.recv() => self.report(report),
                () = std::future::ready(()), if ready => self.next(),
                () = tokio::time::sleep_until(wait) => {}
            }
            self.tell_counts();
        }
    }

    /// When a pod becomes due without anything happening.
    fn next_due(&self) -> Instant {
        let idle = Instant::now() + IDLE;
        match self.leading {
            Some(_) => self.queue.next_due().map_or(idle, |due| due.min(idle)),
            None => idle,
        }
    }

    /// A claim that is lost pauses; one that is won counts once the informers have seen it.
    fn claim_changed(&mut self) {
        let held = self.parts.claim.current().map(|held| held.epoch);
        if self.leading.is_some() && self.leading != held {
            tracing::info!("the claim is lost, scheduling pauses");
            self.leading = None;
            self.cache.forget_all();
        }
        if let Some(epoch) = held {
            tracing::info!(epoch, "the claim is held");
            let (informers, reports) = (self.informers.clone(), self.reports.clone());
            self.parts.tasks.spawn("fresh eyes", async move {
                informers.refresh().await;
                let _ = reports.send(Report::Fresh(epoch)).await;
            });
        }
    }

    /// The fence of writes about a pod; `None` where the claim that is scheduled under is lost, though it may be held
    /// anew: what was decided under the one must not be written under the other.
    fn fence(&self, pod: &SharedPod) -> Option<Fence> {
        let fence = self.parts.claim.fence("scheduler", &pod.key().to_string());
        fence.filter(|fence| Some(fence.epoch) == self.leading)
    }

    fn report(&mut self, report: Report) {
        match report {
            Report::Fresh(epoch) => {
                if self.parts.claim.current().map(|held| held.epoch) == Some(epoch) {
                    tracing::info!(epoch, "scheduling");
                    self.leading = Some(epoch);
                }
            }
            Report::Bound { uid } => {
                self.bindings = self.bindings.saturating_sub(1);
                self.queue.done(&uid);
            }
            Report::NotBound { waiting, gone, why } => {
                self.bindings = self.bindings.saturating_sub(1);
                self.not_bound(*waiting, gone, &why);
            }
        }
    }

    fn not_bound(&mut self, waiting: Waiting, gone: bool, why: &str) {
        let uid = waiting.pod.uid().to_owned();
        let bound_meanwhile = self.cache.pod(&uid).is_some() && !self.cache.is_assumed(&uid);
        self.cache.forget(&uid);
        if gone || bound_meanwhile {
            self.queue.done(&uid);
            return;
        }
        // As it is by now; nothing if it went.
        let Some(pod) = self.queue.errored(waiting, Instant::now()) else { return };
        self.nominated(&pod);
        tracing::warn!(pod = %pod.key(), "not bound: {why}");
        self.tell_failure(&pod, report::Reason::SchedulerError, why.to_owned(), None);
    }

    /// Tries the next pod.
    fn next(&mut self) {
        let Some(waiting) = self.queue.pop(Instant::now()) else { return };
        if waiting.pod.is_terminating() {
            self.queue.done(waiting.pod.uid());
            return;
        }
        self.attempt(waiting);
    }

    fn tell_counts(&self) {
        let names = ["active", "backoff", "unschedulable", "gated"];
        for (name, count) in names.into_iter().zip(self.queue.counts()) {
            metrics::gauge!("scheduler_pending_pods", "queue" => name).set(count as f64);
        }
    }
}

/// A pod as tasks hold it.
type SharedPod = Arc<crate::model::PodInfo>;
