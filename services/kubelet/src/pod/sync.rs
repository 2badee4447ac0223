//! The life of a Pod on this node: what is seen, planned, done and told, again and again.
//!
//! A [`Life`] belongs to one worker. [`Life::sync`] looks at the runtime, plans, acts and reports; it may be dropped at
//! any point where it waits, and the next one goes on from what the runtime then has.

use super::backoff::Backoffs;
use super::images::Pulls;
use super::plan::{self, Plan};
use super::report::{Report, Target};
use super::status::{self, Inputs, StartFailure};
use super::trace::Trace;
use super::view::{self, spec};
use super::written::Written;
use super::{gc, termination};
use crate::cri::state::{PodState, Stage};
use crate::error::{Error, Result};
use crate::host::Host;
use crate::probe::{Results, Watchers};
use crate::volumes::{Tokens, Volumes};
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tracing::Instrument as _;
use trireme_telemetry::Cause;

/// What is wanted of a Pod, published by the manager.
#[derive(Debug, Clone)]
pub struct Desired {
    /// The Pod.
    pub pod: Arc<Pod>,
    /// What caused this version.
    pub cause: Cause,
    /// No source knows it any more: it is to be stopped and forgotten.
    pub gone: bool,
    /// It may not run here: reason and message of its failure.
    pub rejected: Option<(String, String)>,
    /// Of a static Pod: what shows it in the API.
    pub mirror: Option<Arc<Pod>>,
}

impl Desired {
    /// It is to be stopped.
    pub fn must_stop(&self) -> bool {
        self.gone || self.pod.metadata.deletion_timestamp.is_some()
    }

    /// How long its containers have to stop, when it is to be stopped.
    pub(super) fn grace(&self) -> i64 {
        view::grace_seconds(&self.pod).max(1)
    }

    fn revision(&self) -> i64 {
        let version = self.pod.metadata.resource_version.as_deref();
        version.and_then(|version| version.parse().ok()).unwrap_or_default()
    }
}

/// Where a Pod is in its life on this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Course {
    Running,
    Stopping,
    Stopped,
}

/// What the worker is to do next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Next {
    /// Look again after this time, whatever happens.
    pub after: Option<Duration>,
    /// Nothing of the Pod is left on the node.
    pub finished: bool,
}

impl Next {
    pub(super) fn sooner(&mut self, after: Duration) {
        self.after = Some(self.after.map_or(after, |known| known.min(after)));
    }
}

/// Without any news a Pod is looked at this often: volumes are renewed, and what was missed is found.
const RESYNC: Duration = Duration::from_secs(60);
/// While an init container runs that has just started, it is looked at after a part of the time that it runs already,
/// but not more and not less often than this.
const SOON: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(250));
/// One that runs longer is found to have ended as everything else is.
const FRESH: Duration = Duration::from_secs(5);

/// One Pod's life.
pub struct Life {
    pub(super) host: Arc<Host>,
    pub(super) desired: watch::Receiver<Desired>,
    pub(super) course: Course,
    pub(super) restarts: Backoffs,
    pub(super) pulls: Pulls,
    pub(super) tokens: Tokens,
    pub(super) failures: HashMap<String, StartFailure>,
    pub(super) previous: PodStatus,
    pub(super) trace: Trace,
    pub(super) watchers: Watchers,
    pub(super) written: Written,
    pub(super) stumbles: u32,
    pub(super) told: HashMap<String, Instant>,
}

impl Life {
    /// The life of a Pod that this process has not seen before; the runtime may well have.
    pub fn new(host: Arc<Host>, desired: watch::Receiver<Desired>) -> Self {
        let previous = {
            let desired = desired.borrow();
            let known = desired.mirror.as_ref().unwrap_or(&desired.pod);
            known.status.clone().unwrap_or_default()
        };
        let trace = Trace::new(&previous);
        Self {
            host,
            desired,
            course: Course::Running,
            restarts: Backoffs::default(),
            pulls: Pulls::default(),
            tokens: Tokens::default(),
            failures: HashMap::new(),
            previous,
            trace,
            watchers: Watchers::default(),
            written: Written::default(),
            stumbles: 0,
            told: HashMap::new(),
        }
    }

    /// The probe tasks, for the worker to adjust.
    pub fn watchers(&mut self) -> &mut Watchers {
        &mut self.watchers
    }

    /// Looks, plans, acts and reports.
    pub async fn sync(&mut self, results: &Results, report_probe: &crate::probe::Report) -> Next {
        let desired = self.desired.borrow_and_update().clone();
        self.trace.see(&desired.cause);
        let outcome = if desired.must_stop() || self.course != Course::Running {
            self.stop(&desired, results).await
        } else {
            let mut interrupt = self.desired.clone();
            tokio::select! {
                outcome = self.run(&desired, results, report_probe) => outcome,
                _ = interrupt.wait_for(Desired::must_stop) => Ok(Next { after: Some(Duration::ZERO), finished: false }),
            }
        };
        self.trace.settle(outcome.is_ok());
        match outcome {
            Ok(mut next) => {
                self.stumbles = 0;
                next.sooner(RESYNC);
                next
            }
            Err(error) => {
                let pause = Duration::from_millis(500).saturating_mul(1 << self.stumbles.min(6)).min(RESYNC);
                self.stumbles += 1;
                tracing::info!(pod = view::formatted(&desired.pod), %error, "sync failed, will try again");
                Next { after: Some(pause), finished: false }
            }
        }
    }

    pub(super) async fn observe(&self, pod: &Pod) -> Result<PodState> {
        let mut state = self.host.cri.pod_state(view::uid(pod)).await?;
        if state.containers.iter().any(|run| run.stage == Stage::Exited) {
            let dir = self.host.volumes.pod_dir(view::uid(pod));
            let read = tokio::task::spawn_blocking(move || {
                termination::enrich(&mut state, &dir);
                state
            });
            state = read.await.map_err(|error| Error::Pod(format!("last words were not read: {error}")))?;
        }
        Ok(state)
    }

    pub(super) fn status(&self, pod: &Pod, state: &PodState, results: &Results, terminal: bool) -> PodStatus {
        status::generate(&Inputs {
            pod,
            state,
            previous: &self.previous,
            failures: &self.failures,
            probes: results,
            terminal,
            node_ips: &self.host.machine.ips,
            runtime_name: &self.host.cri.identity().name,
            now: Timestamp::now(),
        })
    }

    /// A Pod that is to run.
    async fn run(&mut self, desired: &Desired, results: &Results, report_probe: &crate::probe::Report) -> Result<Next> {
        let pod = &desired.pod;
        if let Some((reason, message)) = self.verdict(desired) {
            self.fail(desired, reason, message);
            self.course = Course::Stopping;
            return Ok(Next { after: Some(Duration::ZERO), finished: false });
        }
        let mut state = self.observe(pod).await?;
        let mut plan = plan::plan(pod, &state, results);
        let mut next = self.deadline(pod);
        self.hold_back(pod, &state, &mut plan, &mut next);
        let status = self.status(pod, &state, results, false);
        if view::is_terminal_phase(status.phase.as_deref().unwrap_or_default()) {
            self.tell(desired, status, &state);
            self.course = Course::Stopping;
            return Ok(Next { after: Some(Duration::ZERO), finished: false });
        }
        let volumes = self.volumes_only_if_running(pod, &state, &plan).await?;
        if self.has_work(&plan, &state) {
            self.tell(desired, status, &state);
            let span = self.trace.span(pod);
            let acted = self.act(desired, &plan, &mut state, volumes, &mut next).instrument(span).await;
            state = self.observe(pod).await?;
            self.tell(desired, self.status(pod, &state, results, false), &state);
            self.adjust_watchers(pod, &state, results, false, report_probe);
            gc::old_attempts(&self.host, pod, &state).await?;
            acted?;
        } else {
            self.forget_failures(&state);
            self.tell(desired, self.status(pod, &state, results, false), &state);
            self.adjust_watchers(pod, &state, results, false, report_probe);
        }
        if let Some(age) = init_age(pod, &state) {
            next.sooner((age / 4).clamp(SOON.0, SOON.1));
        }
        if let Some(due) = self.tokens.next_renewal() {
            let left = Duration::try_from(due.duration_since(Timestamp::now())).unwrap_or_default();
            next.sooner(left.max(Duration::from_secs(10)));
        }
        Ok(next)
    }

    fn has_work(&self, plan: &Plan, state: &PodState) -> bool {
        plan.create_sandbox.is_some()
            || !(plan.kill.is_empty()
                && plan.start_ephemeral.is_empty()
                && plan.start_init.is_empty()
                && plan.start.is_empty())
            || (plan.kill_pod && state.alive().next().is_some())
    }

    fn forget_failures(&mut self, state: &PodState) {
        self.failures.retain(|name, _| state.latest(name).is_none_or(|run| run.stage != Stage::Running));
    }

    fn adjust_watchers(
        &mut self,
        pod: &Arc<Pod>,
        state: &PodState,
        results: &Results,
        stopping: bool,
        report: &crate::probe::Report,
    ) {
        let (cri, events) = (&self.host.cri, &self.host.api.events);
        self.watchers.adjust(pod, state, results, stopping, cri, events, report);
    }

    /// Reasons why the Pod as a whole has failed although its containers may run.
    fn verdict(&self, desired: &Desired) -> Option<(String, String)> {
        if let Some(rejected) = &desired.rejected {
            return Some(rejected.clone());
        }
        let left = self.deadline_left(&desired.pod)?;
        left.is_zero().then(|| {
            let message = "Pod was active on the node longer than the specified deadline";
            ("DeadlineExceeded".to_owned(), message.to_owned())
        })
    }

    fn deadline_left(&self, pod: &Pod) -> Option<Duration> {
        let seconds = spec(pod).active_deadline_seconds?;
        let start = self.previous.start_time.as_ref()?.0;
        let end = start + SignedDuration::from_secs(seconds);
        Some(Duration::try_from(end.duration_since(Timestamp::now())).unwrap_or_default())
    }

    fn deadline(&self, pod: &Pod) -> Next {
        Next { after: self.deadline_left(pod).map(|left| left + Duration::from_millis(50)), finished: false }
    }

    fn fail(&mut self, desired: &Desired, reason: String, message: String) {
        let mut status = self.status(&desired.pod, &PodState::default(), &Results::default(), false);
        let rejected = desired.rejected.is_some();
        if rejected {
            // It never ran here: it has no containers to speak of.
            status = PodStatus {
                start_time: status.start_time,
                qos_class: status.qos_class,
                observed_generation: status.observed_generation,
                ..PodStatus::default()
            };
            self.host.api.events.pod(&desired.pod, None, true, leak(&reason), message.clone());
        }
        status.phase = Some("Failed".into());
        status.reason = Some(reason);
        status.message = Some(if rejected { format!("Pod was rejected: {message}") } else { message });
        self.tell(desired, status, &PodState::default());
    }

    /// Reports a status if it is news to the API server.
    pub(super) fn tell(&mut self, desired: &Desired, status: PodStatus, state: &PodState) {
        let known = desired.mirror.as_ref().unwrap_or(&desired.pod);
        let diverged = self.written.is_in(desired.revision())
            && known.status.as_ref().is_some_and(|known| differs(&self.previous, known));
        if status == self.previous && !diverged {
            return;
        }
        let span = self.trace.span(&desired.pod);
        self.trace.note(&status);
        self.previous = status.clone();
        if let Some(target) = Target::of(desired) {
            let (written, number) = (self.written.clone(), self.written.next());
            self.host.reporter.send(Report { target, status, span, delete: false, written, number });
        }
        tracing::debug!(pod = view::name(&desired.pod), containers = state.containers.len(), "status reported");
    }

    /// The volumes, brought up to date while the Pod runs; before it runs they are made by [`Life::act`].
    async fn volumes_only_if_running(&mut self, pod: &Pod, state: &PodState, plan: &Plan) -> Result<Option<Volumes>> {
        if plan.create_sandbox.is_some() || state.sandboxes.is_empty() {
            return Ok(None);
        }
        match self.set_up_volumes(pod, state.ips()).await {
            Ok(volumes) => Ok(Some(volumes)),
            // What stands goes on standing; only what starts needs all of it.
            Err(error) if plan.start.is_empty() && plan.start_init.is_empty() => {
                tracing::info!(%error, pod = view::name(pod), "a volume was not brought up to date");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    pub(super) async fn set_up_volumes(&mut self, pod: &Pod, ips: &[String]) -> Result<Volumes> {
        told_volumes(&self.host.clone(), pod, ips, Some(&mut self.tokens)).await
    }
}

/// Sets up the volumes, and tells what goes wrong. Without `tokens` these are left out.
pub(super) async fn told_volumes(
    host: &Host,
    pod: &Pod,
    ips: &[String],
    tokens: Option<&mut Tokens>,
) -> Result<Volumes> {
    let outcome = host.volumes.set_up(pod, &host.surroundings(ips), &*host.api.objects, tokens).await;
    outcome.inspect_err(|error| host.api.events.pod(pod, None, true, "FailedMount", error.to_string()))
}

/// How long the init container that is waited for has been running, or is over, while that is short: the next one need
/// not wait for the next look at the whole runtime.
fn init_age(pod: &Pod, state: &PodState) -> Option<Duration> {
    if super::restart::is_initialized(pod, state) {
        return None;
    }
    let now = Timestamp::now().as_nanosecond();
    let runs = view::init_containers(pod).iter().filter_map(|one| state.active(&one.name));
    let ages = runs.map(|run| now - i128::from(run.started_at.max(run.finished_at)));
    let youngest = ages.map(|age| Duration::from_nanos(u64::try_from(age).unwrap_or_default())).min()?;
    (youngest < FRESH).then_some(youngest)
}

/// Did somebody else write what only the kubelet should?
fn differs(ours: &PodStatus, theirs: &PodStatus) -> bool {
    let owned = |status: &PodStatus| -> Vec<(String, String)> {
        let all = status.conditions.iter().flatten();
        let mut owned: Vec<_> = all
            .filter(|condition| super::conditions::OWNED.contains(&condition.type_.as_str()))
            .map(|condition| (condition.type_.clone(), condition.status.clone()))
            .collect();
        owned.sort();
        owned
    };
    ours.phase != theirs.phase || ours.pod_ip != theirs.pod_ip || owned(ours) != owned(theirs)
}

/// Reasons of rejections are few, and events want them static.
fn leak(reason: &str) -> &'static str {
    match reason {
        "OutOfcpu" => "OutOfcpu",
        "OutOfmemory" => "OutOfmemory",
        "OutOfpods" => "OutOfpods",
        "NodeAffinity" => "NodeAffinity",
        "Evicted" => "Evicted",
        "SysctlForbidden" => "SysctlForbidden",
        "AppArmor" => "AppArmor",
        "SupplementalGroupsPolicyNotSupported" => "SupplementalGroupsPolicyNotSupported",
        _ => "UnexpectedAdmissionError",
    }
}

impl std::fmt::Debug for Life {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Life").field("course", &self.course).field("stumbles", &self.stumbles).finish_non_exhaustive()
    }
}
