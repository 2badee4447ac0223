//! The loop of a controller.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::join_all;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;
use trireme_telemetry::{Kind, SpanExt as _};

use super::source::Source;
use super::{Action, Controller, ReconcileError, Reconciler};
use crate::context::{self, Fence, Write};
use crate::key::ObjectKey;
use crate::queue::{Work, WorkQueue};
use crate::wake::{self, Reacted, Wakes};

/// What a key reacted to is forgotten when this many keys are remembered and it is older than the trace window.
const REMEMBERED: usize = 4096;

pub(super) struct Engine {
    controller: Controller,
    workers: usize,
    reconciler: Arc<dyn Reconciler>,
}

/// What the workers of one term share.
struct Term {
    name: &'static str,
    epoch: i64,
    queue: WorkQueue<ObjectKey>,
    sources: Arc<[Box<dyn Source>]>,
    reconciler: Arc<dyn Reconciler>,
    controller: Arc<Settings>,
    reacted: Mutex<HashMap<ObjectKey, (Reacted, Instant)>>,
    /// The waits for writes to be seen; they end with the term.
    settling: TaskTracker,
    ended: CancellationToken,
}

struct Settings {
    clock: crate::clock::Clock,
    window: std::time::Duration,
    quiet: bool,
    always: Vec<ObjectKey>,
    claim: Option<crate::claims::Claim>,
}

impl Engine {
    pub(super) fn new(controller: Controller, workers: usize, reconciler: Arc<dyn Reconciler>) -> Self {
        Self { controller, workers: workers.max(1), reconciler }
    }

    pub(super) async fn run(self) {
        let Controller { name, sources, queue, claim, clock, trace_window, resync, quiet, always } = self.controller;
        let sources: Arc<[Box<dyn Source>]> = sources.into();
        let settings = Arc::new(Settings { clock, window: trace_window, quiet, always, claim: claim.clone() });
        loop {
            let epoch = match &claim {
                Some(claim) => claim.held().await.epoch,
                None => 0,
            };
            let term = Arc::new(Term {
                name,
                epoch,
                queue: queue.clone(),
                sources: sources.clone(),
                reconciler: self.reconciler.clone(),
                controller: settings.clone(),
                reacted: Mutex::default(),
                settling: TaskTracker::new(),
                ended: CancellationToken::new(),
            });
            // Also when the engine itself is dropped.
            let _ended = term.ended.clone().drop_guard();
            let mut tasks = JoinSet::new();
            let work = term.clone().work(&mut tasks, self.workers, resync);
            match &claim {
                None => work.await,
                Some(claim) => {
                    tokio::select! {
                        () = work => {}
                        () = claim.lost(epoch) => tracing::info!(controller = name, epoch, "paused: the claim is lost"),
                    }
                }
            }
            // What a task of this term says of a key must not be taken for the next term's word.
            tasks.shutdown().await;
            term.end().await;
            queue.clear();
        }
    }
}

impl Term {
    /// Fresh eyes, then work in `tasks`, until dropped.
    async fn work(self: Arc<Self>, tasks: &mut JoinSet<()>, workers: usize, resync: Option<std::time::Duration>) {
        let epoch = self.epoch;
        join_all(self.sources.iter().map(|s| s.synced())).await;
        join_all(self.sources.iter().map(|s| s.reached(epoch))).await;
        tracing::info!(controller = self.name, epoch, workers, "working");
        // A subscription begins with everything that is there, each with the cause of its version.
        for source in self.sources.iter() {
            tasks.spawn(source.pump(self.queue.clone()));
        }
        for key in &self.controller.always {
            self.queue.add(key.clone(), Wakes::default());
        }
        for _ in 0..workers {
            tasks.spawn(self.clone().worker());
        }
        if let Some(period) = resync {
            let term = self.clone();
            tasks.spawn(async move {
                loop {
                    tokio::time::sleep(period).await;
                    term.sources.iter().for_each(|s| s.resync(&term.queue));
                }
            });
        }
        // None of them ends before it is dropped, unless the queue is closed.
        while let Some(ended) = tasks.join_next().await {
            if let Some(panic) = ended.err().and_then(|error| error.try_into_panic().ok()) {
                // Without it the controller would be deaf or slow, and nobody would know: whoever runs it decides.
                std::panic::resume_unwind(panic);
            }
        }
        std::future::pending::<()>().await;
    }

    /// Ends the waits for writes; when it returns none will say `done` any more.
    async fn end(&self) {
        self.ended.cancel();
        self.settling.close();
        self.settling.wait().await;
    }

    async fn worker(self: Arc<Self>) {
        while let Some(work) = self.queue.next().await {
            let writes = self.reconcile(&work).await;
            if writes.is_empty() {
                self.queue.done(&work.key);
            } else {
                // The worker goes on; the key waits until its writes were seen.
                let term = self.clone();
                let settle = async move {
                    for write in &writes {
                        join_all(term.sources.iter().map(|s| s.saw(write))).await;
                    }
                    term.queue.done(&work.key);
                };
                let settle = self.ended.clone().run_until_cancelled_owned(settle);
                self.settling.spawn(settle);
            }
        }
    }

    /// `None` also where the claim is held anew: the informers may not have seen what the holder between wrote.
    fn fence(&self, key: &ObjectKey) -> Option<Fence> {
        let fence = self.controller.claim.as_ref().and_then(|claim| claim.fence(self.name, &key.to_string()));
        fence.filter(|fence| fence.epoch == self.epoch)
    }

    fn span(&self, work: &Work<ObjectKey>) -> tracing::Span {
        let now = self.controller.clock.now().as_nanosecond();
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let reacted = self.reacted.lock().get(&work.key).map(|(r, _)| r.clone()).unwrap_or_default();
        let (parent, links) = wake::parent(&work.wakes, &reacted, now, self.controller.window);
        trireme_telemetry::span(format!("reconcile {} {}", self.name, work.key))
            .kind(Kind::Consumer)
            .parent(parent)
            .links(&links)
            .attribute("trireme.controller", self.name)
            .attribute("trireme.key", work.key.to_string())
            .start()
    }

    fn note_reacted(&self, work: &Work<ObjectKey>) {
        if work.wakes.causes().is_empty() {
            return;
        }
        let mut reacted = self.reacted.lock();
        let now = Instant::now();
        if reacted.len() >= REMEMBERED {
            let window = self.controller.window;
            reacted.retain(|_, (_, at)| now.duration_since(*at) < window);
        }
        let entry = reacted.entry(work.key.clone()).or_insert_with(|| (Reacted::default(), now));
        entry.0.note(&work.wakes);
        entry.1 = now;
    }

    /// One round; gives back the writes that must be seen before the next.
    async fn reconcile(&self, work: &Work<ObjectKey>) -> Vec<Write> {
        let fence = self.fence(&work.key);
        if self.controller.claim.is_some() && fence.is_none() {
            // The claim went this very moment: the term is about to end.
            return Vec::new();
        }
        let quiet = self.controller.quiet && work.wakes.causes().is_empty();
        let span = if quiet { tracing::Span::none() } else { self.span(work) };
        let started = Instant::now();
        let round = AssertUnwindSafe(self.reconciler.reconcile(&work.key)).catch_unwind().instrument(span.clone());
        let (result, writes) = context::scoped(fence, quiet, round).await;
        let result = result.unwrap_or_else(|panic| Err(ReconcileError::Other(panicked(&*panic))));
        metrics::histogram!("trireme_reconcile_duration_seconds", "controller" => self.name)
            .record(started.elapsed().as_secs_f64());
        let outcome = if result.is_ok() { "success" } else { "error" };
        metrics::counter!("trireme_reconcile_total", "controller" => self.name, "result" => outcome).increment(1);
        metrics::gauge!("workqueue_depth", "name" => self.name).set(self.queue.len() as f64);
        match result {
            Ok(action) => {
                self.queue.forget(&work.key);
                self.note_reacted(work);
                if let Action::RequeueAfter(delay) = action {
                    let wakes = if self.controller.quiet { Wakes::default() } else { work.wakes.aftermath() };
                    self.queue.add_after(work.key.clone(), delay, wakes);
                }
            }
            Err(error) => {
                span.fail(error.to_string());
                self.failed(work, &error).await;
                self.queue.add_rate_limited(work.key.clone(), work.wakes.clone());
            }
        }
        writes
    }

    async fn failed(&self, work: &Work<ObjectKey>, error: &ReconcileError) {
        let (controller, key) = (self.name, &work.key);
        let ReconcileError::Call(call) = error else {
            tracing::warn!(controller, %key, %error, "reconcile failed");
            return;
        };
        if call.is_claim_lost() {
            tracing::info!(controller, %key, "the claim was lost while writing");
            if let Some(claim) = &self.controller.claim {
                claim.doubt();
            }
        } else if call.is_conflict()
            || call.is_not_found()
            || call.is_already_exists()
            || call.is_namespace_terminating()
        {
            // Someone else was faster, or all of it is going away: look again.
            tracing::debug!(controller, %key, %error, "the world changed meanwhile");
        } else if call.is_outcome_unknown() {
            tracing::info!(controller, %key, %error, "the outcome of a call is unknown");
            join_all(self.sources.iter().map(|s| s.refreshed())).await;
        } else {
            tracing::warn!(controller, %key, %error, "reconcile failed");
        }
    }
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> String {
    let what =
        panic.downcast_ref::<&str>().map(|s| (*s).to_owned()).or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panicked: {}", what.unwrap_or_default())
}
