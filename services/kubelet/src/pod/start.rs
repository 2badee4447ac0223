//! Starting one container: image, config, create, start, postStart hook.

use super::container::{self, Parts};
use super::images::{Pulls, Refused};
use super::plan::KillReason;
use super::security::{self, ImageUser};
use super::status::StartFailure;
use super::view::{self, Role};
use super::{env, hooks, kill, leftovers};
use crate::cri::state::{ContainerState, PodState, Stage};
use crate::error::Error;
use crate::host::Host;
use crate::volumes::Volumes;
use k8s_openapi::api::core::v1::{Container, Pod};
use std::time::Duration;
use trireme_proto::runtime::v1 as pb;

const RETRY: Duration = Duration::from_secs(10);

/// The sandbox that containers are started in.
#[derive(Debug, Clone)]
pub(super) struct Sandbox {
    pub(super) id: String,
    pub(super) config: pb::PodSandboxConfig,
    pub(super) ips: Vec<String>,
}

/// Starts a container; what stands in the way becomes its waiting state.
pub(super) async fn start(
    host: &Host,
    pod: &Pod,
    (role, container): (Role, &Container),
    sandbox: &Sandbox,
    state: &PodState,
    volumes: &Volumes,
    pulls: &mut Pulls,
) -> Result<(), Refused> {
    let image = host.puller.ensure(pod, container, &sandbox.config, pulls).await.inspect_err(|refused| {
        if refused.failure.reason != "ImagePullBackOff" {
            failed(host, pod, container, &refused.failure.reason);
        }
    })?;
    let log_root = container::log_directory(&host.config.pod_log_dir, pod);
    let logs = log_root.join(&container.name);
    let restart_count = match state.latest(&container.name) {
        Some(latest) => latest.annotated.restart_count + 1,
        None => container::restart_count_from_logs(&logs),
    };
    let config = build(host, pod, (role, container), sandbox, state, volumes, &image, restart_count).await;
    let config = config.map_err(|error| refuse(host, pod, container, "CreateContainerConfigError", &error))?;
    std::fs::create_dir_all(&logs)
        .map_err(|error| Error::io("create", &logs, error))
        .map_err(|error| refuse(host, pod, container, "CreateContainerConfigError", &error))?;
    let id = host
        .cri
        .create_container(&sandbox.id, config, sandbox.config.clone())
        .await
        .map_err(|error| refuse(host, pod, container, "CreateContainerError", &error))?;
    let event = |reason, message: &str| host.api.events.pod(pod, Some(&container.name), false, reason, message.into());
    event("Created", "Container created");
    host.cri.start_container(&id).await.map_err(|error| refuse(host, pod, container, "RunContainerError", &error))?;
    event("Started", "Container started");
    if let Some(links) = &host.config.container_log_links {
        let log = log_root.join(container::log_path(&container.name, restart_count));
        if let Err(error) = leftovers::link_log(links, pod, &container.name, &id, &log) {
            tracing::debug!(%error, "no link to the log");
        }
    }
    post_start(host, pod, container, sandbox, id).await
}

fn failed(host: &Host, pod: &Pod, container: &Container, why: &str) {
    host.api.events.pod(pod, Some(&container.name), true, "Failed", format!("Error: {why}"));
}

fn refuse(host: &Host, pod: &Pod, container: &Container, reason: &str, error: &Error) -> Refused {
    failed(host, pod, container, &error.to_string());
    Refused { failure: StartFailure { reason: reason.into(), message: error.to_string() }, retry: RETRY }
}

#[allow(clippy::too_many_arguments, reason = "all that a container is made of, once")]
async fn build(
    host: &Host,
    pod: &Pod,
    (role, container): (Role, &Container),
    sandbox: &Sandbox,
    state: &PodState,
    volumes: &Volumes,
    image: &pb::Image,
    restart_count: u32,
) -> Result<pb::ContainerConfig, Error> {
    let around = host.surroundings(&sandbox.ips);
    let services = host.services().await;
    let env = env::make(pod, container, &around, &*host.api.objects, &services).await?;
    let mut mounts = host.volumes.mounts(pod, container, volumes, &env)?;
    let handler = view::spec(pod).runtime_class_name.as_deref().unwrap_or_default();
    security::read_only_below(container, &mut mounts, host.features.borrow().read_only_below.contains(handler))?;
    let target = (role == Role::Ephemeral).then(|| target_of(pod, container, state)).flatten();
    let image_user = ImageUser::of(Some(image));
    container::config(
        pod,
        container,
        Parts {
            restart_count,
            image_ref: &image.id,
            image_user: &image_user,
            env: &env,
            mounts,
            root_dir: host.volumes.root_dir(),
            pod_dir: &host.volumes.pod_dir(view::uid(pod)),
            node_memory: host.machine.memory,
            target: target.as_deref(),
        },
    )
}

/// The running container whose processes an ephemeral one is to see.
fn target_of(pod: &Pod, container: &Container, state: &PodState) -> Option<String> {
    let all = view::spec(pod).ephemeral_containers.as_deref().unwrap_or_default();
    let target = all.iter().find(|one| one.name == container.name)?.target_container_name.as_deref()?;
    state.latest(target).filter(|run| run.stage == Stage::Running).map(|run| run.id.clone())
}

async fn post_start(
    host: &Host,
    pod: &Pod,
    container: &Container,
    sandbox: &Sandbox,
    id: String,
) -> Result<(), Refused> {
    let Some(handler) = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.post_start.as_ref()) else {
        return Ok(());
    };
    let ip = sandbox.ips.first().map(String::as_str).unwrap_or("127.0.0.1");
    let Err(message) = hooks::run(&host.cri, container, &id, ip, handler).await else { return Ok(()) };
    host.api.events.pod(pod, Some(&container.name), true, "FailedPostStartHook", "PostStartHook failed".into());
    let run = ContainerState {
        id,
        name: container.name.clone(),
        sandbox_id: sandbox.id.clone(),
        stage: Stage::Running,
        created_at: 0,
        started_at: 0,
        finished_at: 0,
        exit_code: 0,
        reason: String::new(),
        message: String::new(),
        image: String::new(),
        image_ref: String::new(),
        log_path: String::new(),
        annotated: crate::cri::names::Annotated::default(),
        mounts: Vec::new(),
    };
    let why = Some("FailedPostStartHook".to_owned());
    if let Err(error) = kill::container(host, pod, &run, ip, why, KillReason::Other, None).await {
        tracing::warn!(%error, container = container.name, "a container whose postStart hook failed was not stopped");
    }
    let failure = StartFailure { reason: "PostStartHookError".into(), message };
    Err(Refused { failure, retry: RETRY })
}
