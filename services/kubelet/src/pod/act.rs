//! Doing what was planned: sandbox, volumes, containers, and the pauses between tries.

use super::backoff::go_duration;
use super::images::Refused;
use super::kill;
use super::plan::Plan;
use super::start::{self, Sandbox};
use super::status::StartFailure;
use super::sync::{Desired, Life, Next, told_volumes};
use super::view::{self, Role, spec};
use super::{container, dns, env, sandbox};
use crate::cri::state::{PodState, Stage};
use crate::error::{Error, Result};
use crate::volumes::{self, Volumes};
use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::jiff::Timestamp;
use std::time::{Duration, Instant};

/// That a pause runs is told again after this time.
const RETELL: Duration = Duration::from_secs(10);

impl Life {
    /// Takes out of a plan what must wait for its pause to end.
    pub(super) fn hold_back(&mut self, pod: &Pod, state: &PodState, plan: &mut Plan, next: &mut Next) {
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

    /// Performs a plan. Returns early, without an error, when there is nothing more to be done before the next look.
    pub(super) async fn act(
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
        let (sandbox, volumes) = match plan.create_sandbox {
            Some(attempt) => {
                let prepared = self.prepare(desired, attempt).await?;
                *state = self.observe(pod).await?;
                prepared
            }
            None => {
                let volumes = match volumes {
                    Some(volumes) => volumes,
                    None => self.set_up_volumes(pod, state.ips()).await?,
                };
                let id = plan.sandbox_id.clone().unwrap_or_default();
                let attempt = state.sandboxes.first().map(|sandbox| sandbox.attempt).unwrap_or_default();
                (Sandbox { config: self.sandbox_config(pod, attempt)?, ips: state.ips().to_vec(), id }, volumes)
            }
        };
        self.write_hosts(pod, &sandbox.ips)?;
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

    /// The sandbox and the volumes of a Pod that has neither. A Pod whose volumes can't be had has no sandbox, so they
    /// come first; but tokens take the API server a while, and they and what environments are made of are needed only in
    /// containers: these are asked for meanwhile.
    async fn prepare(&mut self, desired: &Desired, attempt: u32) -> Result<(Sandbox, Volumes)> {
        let host = self.host.clone();
        let (pod, objects) = (&*desired.pod, &*host.api.objects);
        host.cgroups.make(pod)?;
        let mut tokens = std::mem::take(&mut self.tokens);
        let sandbox = async {
            volumes::warm(pod, objects).await;
            told_volumes(&host, pod, &[], None).await?;
            self.make_sandbox(desired, attempt).await
        };
        let meanwhile = async {
            tokio::join!(tokens.fetch(pod, objects), env::warm(pod, objects));
            Ok(())
        };
        let outcome = tokio::try_join!(sandbox, meanwhile);
        self.tokens = tokens;
        let (sandbox, ()) = outcome?;
        // Fields that hold the Pod's address are known only now, too.
        let volumes = self.set_up_volumes(pod, &sandbox.ips).await?;
        Ok((sandbox, volumes))
    }

    async fn make_sandbox(&self, desired: &Desired, attempt: u32) -> Result<Sandbox> {
        let host = self.host.clone();
        let pod = &*desired.pod;
        if !view::host_network(pod)
            && let Err(why) = host.network.borrow().clone()
        {
            let message = format!("network is not ready: {why}");
            host.api.events.pod(pod, None, true, "NetworkNotReady", message.clone());
            return Err(Error::Pod(message));
        }
        let config = self.sandbox_config(pod, attempt).inspect_err(|error| {
            let message = format!("Failed to create pod sandbox: {error}");
            host.api.events.pod(pod, None, true, "FailedCreatePodSandBox", message);
        })?;
        let logs = container::log_directory(&host.config.pod_log_dir, pod);
        std::fs::create_dir_all(&logs).map_err(|error| Error::io("create", &logs, error))?;
        let id = host.cri.run_pod_sandbox(config.clone(), &self.handler(pod)).await.inspect_err(|error| {
            host.api.events.pod(
                pod,
                None,
                true,
                "FailedCreatePodSandBox",
                format!("Failed to create pod sandbox: {}", error.with_code()),
            );
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
}

/// When the newest run of a container that ended did so.
fn last_end(container: &Container, state: &PodState) -> Option<Timestamp> {
    let ended = state.containers.iter().find(|run| run.name == container.name && run.stage == Stage::Exited)?;
    Timestamp::from_nanosecond(i128::from(ended.finished_at)).ok()
}

fn pause_key(container: &Container) -> String {
    format!("{}_{:x}", container.name, crate::cri::names::container_hash(container))
}
