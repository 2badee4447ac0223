//! The tasks that ask again and again.

use super::{Check, Failure, Kind, Outcome, Results};
use crate::api::Events;
use crate::cri::Cri;
use crate::cri::state::{PodState, Stage};
use crate::pod::view;
use async_trait::async_trait;
use k8s_openapi::api::core::v1::{Container, Pod, Probe};
use k8s_openapi::jiff::Timestamp;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// An error is asked again at once, a few times, before it counts.
const ATTEMPTS: usize = 3;

/// Called when a result changed.
pub type Report = Arc<dyn Fn(Outcome) + Send + Sync>;

/// The probe tasks of one Pod. Dropping it ends them.
#[derive(Default)]
pub struct Watchers {
    tasks: HashMap<(String, Kind), JoinHandle<()>>,
}

impl Watchers {
    /// Starts tasks of containers that run, and ends those of containers that no longer do. While the Pod is being
    /// stopped only readiness is asked.
    pub fn adjust(
        &mut self,
        pod: &Arc<Pod>,
        state: &PodState,
        results: &Results,
        stopping: bool,
        cri: &Cri,
        events: &Arc<dyn Events>,
        report: &Report,
    ) {
        let mut wanted = HashMap::new();
        for (container, run) in running(pod, state) {
            let started = container.startup_probe.is_none() || results.startup(&run.id) == Some(true);
            let mut want = |kind, probe: &Option<Probe>| {
                if let Some(probe) = probe {
                    wanted.insert((run.id.clone(), kind), (container.clone(), probe.clone(), run.started_at));
                }
            };
            if !started && !stopping {
                want(Kind::Startup, &container.startup_probe);
            }
            if started {
                want(Kind::Readiness, &container.readiness_probe);
                if !stopping {
                    want(Kind::Liveness, &container.liveness_probe);
                }
            }
        }
        self.tasks.retain(|key, task| {
            let keep = wanted.contains_key(key);
            if !keep {
                task.abort();
            }
            keep
        });
        let ip = state.ips().first().cloned().unwrap_or_else(|| "127.0.0.1".into());
        for (key, (container, probe, started_at)) in wanted {
            self.tasks.entry(key.clone()).or_insert_with(|| {
                let (container_id, kind) = key;
                let question = Asked {
                    container: container.clone(),
                    container_id: container_id.clone(),
                    probe: probe.clone(),
                    ip: ip.clone(),
                    cri: cri.clone(),
                };
                let watcher = Watcher {
                    pod: pod.clone(),
                    container: container.name,
                    container_id,
                    kind,
                    probe,
                    started_at,
                    question: Box::new(question),
                    events: events.clone(),
                    report: report.clone(),
                };
                tokio::spawn(watcher.run())
            });
        }
    }
}

impl Drop for Watchers {
    fn drop(&mut self) {
        self.tasks.values().for_each(JoinHandle::abort);
    }
}

impl std::fmt::Debug for Watchers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.tasks.keys()).finish()
    }
}

fn running<'a>(pod: &Pod, state: &'a PodState) -> Vec<(Container, &'a crate::cri::state::ContainerState)> {
    let sidecars = view::init_containers(pod).iter().filter(|container| view::is_sidecar(container));
    sidecars
        .chain(&view::spec(pod).containers)
        .filter_map(|container| {
            let run = state.latest(&container.name).filter(|run| run.stage == Stage::Running)?;
            Some((container.clone(), run))
        })
        .collect()
}

/// What is asked of a container, once.
#[async_trait]
trait Question: Send + Sync {
    async fn ask(&self, timeout: Duration) -> Result<(), Failure>;
}

/// Its probe, of a container in the runtime.
struct Asked {
    container: Container,
    container_id: String,
    probe: Probe,
    ip: String,
    cri: Cri,
}

#[async_trait]
impl Question for Asked {
    async fn ask(&self, timeout: Duration) -> Result<(), Failure> {
        Check::of(&self.probe, &self.container, &self.ip)?.run(&self.cri, &self.container_id, timeout).await
    }
}

struct Watcher {
    pod: Arc<Pod>,
    container: String,
    container_id: String,
    kind: Kind,
    probe: Probe,
    started_at: i64,
    question: Box<dyn Question>,
    events: Arc<dyn Events>,
    report: Report,
}

/// Counts equal results in a row.
#[derive(Default)]
struct Run {
    last: Option<bool>,
    length: i32,
}

impl Run {
    fn count(&mut self, success: bool) -> i32 {
        if self.last == Some(success) {
            self.length = self.length.saturating_add(1);
        } else {
            (self.last, self.length) = (Some(success), 1);
        }
        self.length
    }
}

impl Watcher {
    async fn run(self) {
        let seconds = |value: Option<i32>, default: u64| {
            Duration::from_secs(value.filter(|value| *value > 0).map_or(default, |value| value.unsigned_abs().into()))
        };
        tokio::time::sleep(self.initial_delay()).await;
        let mut ticks = tokio::time::interval(seconds(self.probe.period_seconds, 10));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut run = Run::default();
        loop {
            ticks.tick().await;
            if self.look(&mut run, seconds(self.probe.timeout_seconds, 1)).await {
                return;
            }
        }
    }

    /// Asks, counts, and reports what has changed; says whether there is no need to ask again.
    async fn look(&self, run: &mut Run, timeout: Duration) -> bool {
        // An attempt that told nothing counts for nothing, as upstream's prober has it: while the runtime is away nobody
        // knows how a container is, and none may be killed for that.
        let Some(success) = self.ask(timeout).await else { return false };
        let threshold = if success { self.probe.success_threshold } else { self.probe.failure_threshold.or(Some(3)) };
        if run.count(success) < threshold.unwrap_or(1).max(1) {
            return false;
        }
        let outcome = Outcome { container_id: self.container_id.clone(), kind: self.kind, success };
        (self.report)(outcome);
        // A container that is to be restarted, or that has started, is asked no more.
        match self.kind {
            Kind::Startup => true,
            Kind::Liveness => !success,
            Kind::Readiness => false,
        }
    }

    fn initial_delay(&self) -> Duration {
        let delay =
            Duration::from_secs(self.probe.initial_delay_seconds.unwrap_or_default().max(0).unsigned_abs().into());
        let age = Timestamp::now().as_nanosecond() - i128::from(self.started_at);
        delay.saturating_sub(Duration::from_nanos(u64::try_from(age).unwrap_or_default()))
    }

    /// How the container is; nothing if no attempt told.
    async fn ask(&self, timeout: Duration) -> Option<bool> {
        let mut last = None;
        for _ in 0..ATTEMPTS {
            match self.question.ask(timeout).await {
                Ok(()) => return Some(true),
                Err(Failure::Failed(output)) => {
                    self.tell(format!("{} probe failed: {output}", self.kind.title()));
                    return Some(false);
                }
                Err(Failure::Errored(error)) => last = Some(error),
            }
        }
        if let Some(error) = last {
            self.tell(format!("{} probe errored and resulted in unknown state: {error}", self.kind.title()));
        }
        None
    }

    fn tell(&self, message: String) {
        self.events.pod(&self.pod, Some(&self.container), true, "Unhealthy", message);
    }
}

#[cfg(test)]
#[path = "watcher_tests.rs"]
mod tests;
