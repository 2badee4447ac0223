//! One attempt to find a node for a pod: filter, score, reserve; then the binding goes its way, or it is told why not.

use std::sync::Arc;

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use tokio::time::Instant;
use tracing::Instrument as _;
use trireme_client::wake;
use trireme_telemetry::SpanExt as _;

use super::{Report, Scheduler, SharedPod, bind, replicas, report};
use crate::algorithm;
use crate::diagnosis::Unschedulable;
use crate::framework::Ask;
use crate::model::{NodeInfo, selector};
use crate::preemption::{self, Budget, Victims};
use crate::queue::Waiting;

impl Scheduler {
    pub(super) fn attempt(&mut self, waiting: Waiting) {
        let began = Instant::now();
        let pod = waiting.pod.clone();
        let span = self.span(&waiting);
        let placed = span.in_scope(|| self.place(&pod));
        metrics::histogram!("scheduler_scheduling_algorithm_duration_seconds").record(began.elapsed().as_secs_f64());
        match placed {
            Ok(node) => {
                attempted("scheduled");
                self.bind(waiting, node, &span);
            }
            Err((why, victims)) => {
                attempted("unschedulable");
                let message = why.to_string();
                span.fail(message.clone());
                tracing::debug!(pod = %pod.key(), "{message}");
                if let Some(victims) = &victims {
                    self.cache.nominate(pod.clone(), &victims.node);
                }
                let _entered = span.entered();
                self.tell_failure(&pod, report::Reason::Unschedulable, message, victims);
                self.queue.failed(waiting, why.plugins, Instant::now());
            }
        }
    }

    /// `schedule <pod>`, a child of what the pod waits for.
    fn span(&self, waiting: &Waiting) -> tracing::Span {
        let now = i64::try_from(self.parts.clock.now().as_nanosecond()).unwrap_or(i64::MAX);
        let (parent, links) = wake::parent(&waiting.wakes, &waiting.reacted, now, self.parts.trace_window);
        trireme_telemetry::span(format!("schedule {}", waiting.pod.key()))
            .parent(parent)
            .links(&links)
            .attribute("k8s.pod.uid", waiting.pod.uid().to_owned())
            .attribute("attempt", i64::from(waiting.attempts))
            .start()
    }

    /// Finds a node and reserves the pod's room on it.
    fn place(&mut self, pod: &SharedPod) -> Result<String, (Box<Unschedulable>, Option<Victims>)> {
        let replicas = replicas::of(pod, &self.informers);
        let snapshot = self.cache.snapshot_for(pod);
        let ask = Ask { pod, snapshot: &snapshot, replicas: &replicas };
        let filter = trireme_telemetry::span("filter").attribute("nodes", snapshot.nodes().len() as i64).start();
        let feasible = match filter.in_scope(|| algorithm::filter(&self.profile, ask, &mut self.start)) {
            Ok(feasible) => feasible,
            Err(mut nowhere) => {
                let victims = self.preempt(ask, &mut nowhere);
                return Err((nowhere, victims));
            }
        };
        drop(filter);
        let score = trireme_telemetry::span("score").attribute("nodes", feasible.nodes.len() as i64).start();
        let node = score.in_scope(|| self.choose(ask, &feasible.nodes).name().to_owned());
        drop(score);
        let reserve = trireme_telemetry::span("reserve").attribute("k8s.node.name", node.clone()).start();
        reserve.in_scope(|| self.cache.assume(pod.clone(), &node));
        Ok(node)
    }

    /// The node that others make room on, if it fits by now, else the best.
    fn choose<'a>(&mut self, ask: Ask<'a>, feasible: &[&'a NodeInfo]) -> &'a NodeInfo {
        let nominated = feasible.iter().find(|node| node.name() == ask.pod.nominated_node());
        match nominated {
            Some(node) => node,
            None => algorithm::score(&self.profile, ask, feasible, self.ties.as_mut()),
        }
    }

    fn preempt(&self, ask: Ask<'_>, nowhere: &mut Unschedulable) -> Option<Victims> {
        if nowhere.no_nodes() || nowhere.refusal.is_some() {
            return None;
        }
        let budgets: Vec<Budget> = self.informers.budgets.store().list().iter().map(budget_of).collect();
        let outcome = preemption::find(&self.profile, ask, nowhere, &budgets);
        nowhere.preemption = outcome.message;
        outcome.victims
    }

    fn bind(&mut self, waiting: Waiting, node: String, span: &tracing::Span) {
        self.bindings += 1;
        let Some(fence) = self.fence(&waiting.pod) else {
            let why = "the claim is lost".to_owned();
            return self.report(Report::NotBound { waiting: Box::new(waiting), gone: false, why });
        };
        let binder = bind::Binder {
            client: self.parts.client.clone(),
            claim: self.parts.claim.clone(),
            fence,
            recorder: self.recorder.clone(),
        };
        let reports = self.reports.clone();
        let task = async move {
            let report = match binder.bind(&waiting.pod, &node).await {
                Ok(()) => {
                    metrics::histogram!("scheduler_pod_scheduling_sli_duration_seconds")
                        .record(waiting.since.elapsed().as_secs_f64());
                    Report::Bound { uid: waiting.pod.uid().to_owned() }
                }
                Err(failure) => {
                    attempted("error");
                    Report::NotBound { waiting: Box::new(waiting), gone: failure.gone, why: failure.why }
                }
            };
            let _ = reports.send(report).await;
        };
        self.parts.tasks.spawn("bind", task.instrument(span.clone()));
    }
}

fn attempted(result: &'static str) {
    metrics::counter!("scheduler_schedule_attempts_total", "result" => result).increment(1);
}

fn budget_of(budget: &Arc<PodDisruptionBudget>) -> Budget {
    let wanted = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    Budget {
        namespace: budget.metadata.namespace.clone().unwrap_or_default(),
        selector: selector(wanted),
        allowed: budget.status.as_ref().map_or(0, |status| status.disruptions_allowed.map_or(0, i64::from)),
    }
}
