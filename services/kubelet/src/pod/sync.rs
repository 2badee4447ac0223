//! The life of a Pod on this node: what is seen, planned, done and told, again and again.
//!
//! A [`Life`] belongs to one worker. [`Life::sync`] looks at the runtime, plans, acts and reports; it may be dropped at
//! any point where it waits, and the next one goes on from what the runtime then has.

use super::backoff::{Backoffs, go_duration};
use super::images::{Pulls, Refused};
use super::kill;
use super::plan::{self, Plan};
use super::report::{Report, Target};
use super::start::{self, Sandbox};
use super::status::{self, Inputs, StartFailure};
use super::view::{self, Role, spec};
use super::{container, dns, gc, sandbox, termination};
use crate::cri::state::{PodState, Stage};
use crate::error::{Error, Result};
use crate::host::Host;
use crate::probe::{Results, Watchers};
use crate::volumes::{Tokens, Volumes};
use k8s_openapi::api::core::v1::{Container, Pod, PodStatus};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tracing::Instrument as _;
use trireme_telemetry::Cause;

use super::trace::Trace;

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
    fn grace(&self) -> i64 {
        view::grace_seconds(&self.pod).max(1)
    }

    fn revision(&self) -> i64 {
        let version = self.pod.metadata.resource_version.as_deref();
        version.and_then(|version| version.parse().ok()).unwrap_or_default()
    }
}

/// Where a Pod is in its life on this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
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
    fn sooner(&mut self, after: Duration) {
        self.after = Some(self.after.map_or(after, |known| known.min(after)));
    }
}

/// Without any news a Pod is looked at this often: volumes are renewed, and what was missed is found.
const RESYNC: Duration = Duration::from_secs(60);
/// While something is awaited that comes soon, it is looked for this often.
const SOON: Duration = Duration::from_millis(100);
/// That a pause runs is told again after this time.
const RETELL: Duration = Duration::from_secs(10);

/// One Pod's life.
pub struct Life {
    host: Arc<Host>,
    desired: watch::Receiver<Desired>,
    course: Course,
    restarts: Backoffs,
    pulls: Pulls,
    tokens: Tokens,
    failures: HashMap<String, StartFailure>,
    previous: PodStatus,
    trace: Trace,
    watchers: Watchers,
    written: Arc<AtomicI64>,
    stumbles: u32,
    told: HashMap<String, Instant>,
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
            written: Arc::default(),
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

    async fn observe(&self, pod: &Pod) -> Result<PodState> {
        let mut state = self.host.cri.pod_state(view::uid(pod)).await?;
        termination::enrich(&mut state);
        Ok(state)
    }

    fn status(&self, pod: &Pod, state: &PodState, results: &Results, terminal: bool) -> PodStatus {
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
            gc::old_attempts(&self.host.cri, &state).await?;
            acted?;
        } else {
            self.forget_failures(&state);
            self.tell(desired, self.status(pod, &state, results, false), &state);
            self.adjust_watchers(pod, &state, results, false, report_probe);
        }
        if awaits_init(pod, &state) {
            next.sooner(SOON);
        }
        if let Some(due) = self.tokens.next_renewal() {
            let left = Duration::try_from(due.duration_since(Timestamp::now())).unwrap_or_default();
            next.sooner(left.max(Duration::from_secs(10)));
        }
        Ok(next)
    }

    /// Takes out of a plan what must wait for its pause to end.
    fn hold_back(&mut self, pod: &Pod, state: &PodState, plan: &mut Plan, next: &mut Next) {
        let mut waits = |container: &Container| {
            // One that is to be killed first is judged after it has ended.
            if state.latest(&container.name).is_some_and(|run| run.stage == Stage::Running) {
                return false;
            }
            let Some(Refused { failure, retry }) = self.pause(pod, container, state) else { return false };
            self.failures.insert(container.name.clone(), failure);
            next.sooner(retry + Duration::from_millis(20));
            true
        };
        plan.start.retain(|index| !waits(&spec(pod).containers[*index]));
        plan.start_init.retain(|index| !waits(&view::init_containers(pod)[*index]));
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
        status.message = Some(message);
        self.tell(desired, status, &PodState::default());
    }

    /// Reports a status if it is news to the API server.
    fn tell(&mut self, desired: &Desired, status: PodStatus, state: &PodState) {
        let known = desired.mirror.as_ref().unwrap_or(&desired.pod);
        let diverged = desired.revision() >= self.written.load(Ordering::Relaxed)
            && known.status.as_ref().is_some_and(|known| differs(&self.previous, known));
        if status == self.previous && !diverged {
            return;
        }
        let span = self.trace.span(&desired.pod);
        self.trace.note(&status);
        self.previous = status.clone();
        if let Some(target) = Target::of(desired) {
            let written = self.written.clone();
            self.host.reporter.send(Report { target, status, span, delete: false, written });
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

    async fn set_up_volumes(&mut self, pod: &Pod, ips: &[String]) -> Result<Volumes> {
        let host = self.host.clone();
        let around = host.surroundings(ips);
        let outcome = host.volumes.set_up(pod, &around, &*host.api.objects, &mut self.tokens).await;
        outcome.inspect_err(|error| {
            self.host.api.events.pod(pod, None, true, "FailedMount", error.to_string());
        })
    }

    /// Performs a plan. Returns early, without an error, when there is nothing more to be done before the next look.
    async fn act(
        &mut self,
        desired: &Desired,
        plan: &Plan,
        state: &mut PodState,
        volumes: Option<Volumes>,
        next: &mut Next,
    ) -> Result<()> {
        let host = self.host.clone();
        let pod = &*desired.pod;
        if plan.kill_pod {
            if plan.create_sandbox.is_some() && !state.sandboxes.is_empty() {
                let message = "Pod sandbox changed, it will be killed and re-created.";
                host.api.events.pod(pod, None, false, "SandboxChanged", message.into());
            }
            kill::pod(&host, pod, state, None).await?;
            if plan.create_sandbox.is_none() {
                return Ok(());
            }
        }
        let ip = state.ips().first().cloned().unwrap_or_default();
        for doomed in &plan.kill {
            let Some(run) = state.containers.iter().find(|run| run.id == doomed.id) else { continue };
            kill::container(&host, pod, run, &ip, Some(doomed.message.clone()), doomed.reason, None).await?;
        }
        let mut plan = plan.clone();
        if !plan.kill.is_empty() {
            *state = self.observe(pod).await?;
            self.hold_back(pod, state, &mut plan, next);
        }
        if plan.start.is_empty() && plan.start_init.is_empty() && plan.start_ephemeral.is_empty() {
            return Ok(());
        }
        let volumes = match volumes {
            Some(volumes) => volumes,
            None => {
                host.cgroups.make(pod)?;
                self.set_up_volumes(pod, &[]).await?
            }
        };
        let sandbox = match plan.create_sandbox {
            Some(attempt) => self.make_sandbox(desired, attempt).await?,
            None => {
                let id = plan.sandbox_id.clone().unwrap_or_default();
                let attempt = state.sandboxes.first().map(|sandbox| sandbox.attempt).unwrap_or_default();
                Sandbox { config: self.sandbox_config(pod, attempt)?, ips: state.ips().to_vec(), id }
            }
        };
        self.write_hosts(pod, &sandbox.ips)?;
        if plan.create_sandbox.is_some() {
            *state = self.observe(pod).await?;
            // Fields that hold the Pod's address are known only now.
            if !sandbox.ips.is_empty() {
                self.set_up_volumes(pod, &sandbox.ips).await?;
            }
        }
        let ephemeral = view::ephemeral_containers(pod);
        for index in &plan.start_ephemeral {
            self.start(pod, (Role::Ephemeral, &ephemeral[*index]), &sandbox, state, &volumes, next).await;
        }
        for index in &plan.start_init {
            let container = &view::init_containers(pod)[*index];
            let started = self.start(pod, (Role::Init, container), &sandbox, state, &volumes, next).await;
            // A later one waits for this one; sidecars restart on their own.
            if !started && !view::is_sidecar(container) {
                return Ok(());
            }
        }
        for index in &plan.start {
            let container = &spec(pod).containers[*index];
            self.start(pod, (Role::Regular, container), &sandbox, state, &volumes, next).await;
        }
        Ok(())
    }

    /// Starts a container; says whether it did.
    async fn start(
        &mut self,
        pod: &Pod,
        (role, container): (Role, &Container),
        sandbox: &Sandbox,
        state: &PodState,
        volumes: &Volumes,
        next: &mut Next,
    ) -> bool {
        if let Some(end) = last_end(container, state) {
            self.restarts.next(&pause_key(container), end);
        }
        match start::start(&self.host, pod, (role, container), sandbox, state, volumes, &mut self.pulls).await {
            Ok(()) => {
                self.failures.remove(&container.name);
                true
            }
            Err(Refused { failure, retry }) => {
                self.failures.insert(container.name.clone(), failure);
                next.sooner(retry + Duration::from_millis(20));
                false
            }
        }
    }

    /// Back-off between restarts and between pulls.
    fn pause(&mut self, pod: &Pod, container: &Container, state: &PodState) -> Option<Refused> {
        let now = Timestamp::now();
        let told = self.told.get(&container.name).is_some_and(|at| at.elapsed() < RETELL);
        let refused = self.pause_now(pod, container, state, now, told)?;
        if !told {
            self.told.insert(container.name.clone(), Instant::now());
        }
        Some(refused)
    }

    fn pause_now(
        &self,
        pod: &Pod,
        container: &Container,
        state: &PodState,
        now: Timestamp,
        told: bool,
    ) -> Option<Refused> {
        if let Some(end) = last_end(container, state)
            && let Err(not_yet) = self.restarts.check(&pause_key(container), end, now)
        {
            let place = view::formatted(pod);
            if !told {
                let event = format!("Back-off restarting failed container {} in pod {place}", container.name);
                self.host.api.events.pod(pod, Some(&container.name), true, "BackOff", event);
            }
            let pause = go_duration(not_yet.pause);
            let message = format!("back-off {pause} restarting failed container={} pod={place}", container.name);
            let failure = StartFailure { reason: "CrashLoopBackOff".into(), message };
            return Some(Refused { failure, retry: not_yet.left });
        }
        self.host.puller.pause(pod, container, &self.pulls, told)
    }

    fn sandbox_config(&self, pod: &Pod, attempt: u32) -> Result<trireme_proto::runtime::v1::PodSandboxConfig> {
        let host = &self.host;
        let (hostname, domain) = host.resolver.hostname(pod)?;
        let place = sandbox::Place {
            log_directory: container::log_directory(&host.config.pod_log_dir, pod),
            cgroup_parent: host.cgroups.parent_of(pod),
            dns: host.resolver.of_pod(pod)?,
            hostname,
            domain,
        };
        sandbox::config(pod, attempt, &place)
    }

    async fn make_sandbox(&mut self, desired: &Desired, attempt: u32) -> Result<Sandbox> {
        let host = self.host.clone();
        let pod = &*desired.pod;
        if !view::host_network(pod)
            && let Err(why) = host.network.borrow().clone()
        {
            let message = format!("network is not ready: {why}");
            host.api.events.pod(pod, None, true, "NetworkNotReady", message.clone());
            return Err(Error::Pod(message));
        }
        let config = self.sandbox_config(pod, attempt)?;
        let logs = container::log_directory(&host.config.pod_log_dir, pod);
        std::fs::create_dir_all(&logs).map_err(|error| Error::io("create", &logs, error))?;
        let id = host.cri.run_pod_sandbox(config.clone(), &self.handler(pod)).await.inspect_err(|error| {
            host.api.events.pod(pod, None, true, "FailedCreatePodSandBox", format!("Failed to create pod sandbox: {}", error.with_code()));
        })?;
        let status = host.cri.pod_sandbox_status(&id).await?;
        let network = status.and_then(|status| status.network).unwrap_or_default();
        let ips = if view::host_network(pod) {
            host.machine.ips.clone()
        } else {
            let more = network.additional_ips.into_iter().map(|ip| ip.ip);
            std::iter::once(network.ip).chain(more).filter(|ip| !ip.is_empty()).collect()
        };
        Ok(Sandbox { id, config, ips })
    }

    /// The runtime handler; RuntimeClasses by the name of their handler.
    fn handler(&self, pod: &Pod) -> String {
        spec(pod).runtime_class_name.clone().unwrap_or_default()
    }

    fn write_hosts(&self, pod: &Pod, ips: &[String]) -> Result<()> {
        let (hostname, domain) = self.host.resolver.hostname(pod)?;
        dns::write_hosts(&self.host.volumes.hosts_file(view::uid(pod)), pod, ips, &hostname, &domain)
    }

    /// A Pod that ends: by its deletion, or because all of it is done.
    async fn stop(&mut self, desired: &Desired, results: &Results) -> Result<Next> {
        let pod = &desired.pod;
        let host = self.host.clone();
        if self.course != Course::Stopped {
            self.course = Course::Stopping;
            let state = self.observe(pod).await?;
            if state.alive().next().is_some() || state.sandboxes.iter().any(|sandbox| sandbox.ready) {
                let span = self.trace.span(pod);
                self.tell(desired, self.status(pod, &state, results, true), &state);
                self.kill_all(desired, &state).instrument(span).await?;
            }
            let state = self.observe(pod).await?;
            if state.alive().next().is_some() {
                return Err(Error::Pod("containers still run after they were stopped".into()));
            }
            self.watchers = Watchers::default();
            if desired.rejected.is_none() {
                self.tell(desired, self.status(pod, &state, &Results::default(), true), &state);
            }
            host.volumes.tear_down(view::uid(pod))?;
            host.cgroups.remove(pod)?;
            self.course = Course::Stopped;
        }
        if !desired.must_stop() {
            // It ran to its end: it is kept for its logs and its exit codes until somebody deletes it.
            return Ok(Next::default());
        }
        let state = self.observe(pod).await?;
        gc::everything(&host.cri, &state).await?;
        let logs = container::log_directory(&host.config.pod_log_dir, pod);
        match std::fs::remove_dir_all(&logs) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::info!(%error, path = %logs.display(), "logs were not removed");
            }
            _ => {}
        }
        if !desired.gone
            && let Some(target) = Target::of(desired)
        {
            let (status, span) = (self.previous.clone(), self.trace.span(pod));
            host.reporter.send(Report { target, status, span, delete: true, written: self.written.clone() });
        }
        Ok(Next { after: None, finished: true })
    }

    /// Stops all containers; starts anew with less time when the grace period is made shorter meanwhile.
    async fn kill_all(&mut self, desired: &Desired, state: &PodState) -> Result<()> {
        let host = self.host.clone();
        let mut watching = self.desired.clone();
        let mut desired = desired.clone();
        // A Pod that is done, but for a sidecar, has the grace of its spec.
        let mut grace = desired.grace();
        loop {
            let shorter = watching.wait_for(|newer| newer.must_stop() && newer.grace() < grace);
            tokio::select! {
                outcome = kill::pod(&host, &desired.pod, state, Some(grace)) => return outcome,
                newer = shorter => {
                    let Ok(newer) = newer else { return Err(Error::Cancelled) };
                    grace = newer.grace();
                    desired = newer.clone();
                }
            }
        }
    }
}

/// When the newest run of a container that ended did so.
fn last_end(container: &Container, state: &PodState) -> Option<Timestamp> {
    let ended = state.containers.iter().find(|run| run.name == container.name && run.stage == Stage::Exited)?;
    Timestamp::from_nanosecond(i128::from(ended.finished_at)).ok()
}

/// Init containers are mostly short: the next one need not wait for the next look at the whole runtime.
fn awaits_init(pod: &Pod, state: &PodState) -> bool {
    let now = Timestamp::now().as_nanosecond();
    let fresh = |name: &str| {
        state.active(name).is_some_and(|run| {
            let age = now - i128::from(run.started_at.max(run.finished_at));
            age < Duration::from_secs(5).as_nanos() as i128
        })
    };
    !super::restart::is_initialized(pod, state) && view::init_containers(pod).iter().any(|one| fresh(&one.name))
}

fn pause_key(container: &Container) -> String {
    format!("{}_{:x}", container.name, crate::cri::names::container_hash(container))
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
        _ => "UnexpectedAdmissionError",
    }
}

impl std::fmt::Debug for Life {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Life").field("course", &self.course).field("stumbles", &self.stumbles).finish_non_exhaustive()
    }
}
