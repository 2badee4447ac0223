//! What the runtime has of one Pod: the observed half of every decision.

use super::Cri;
use super::names::{self, Annotated};
use crate::error::Result;
use futures::stream::{FuturesUnordered, TryStreamExt as _};
use std::collections::HashMap;
use trireme_proto::runtime::v1 as pb;

/// State of a container, as the runtime tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Made, not started.
    Created,
    /// Its process runs.
    Running,
    /// Its process ended.
    Exited,
    /// The runtime does not know.
    Unknown,
}

impl From<pb::ContainerState> for Stage {
    fn from(state: pb::ContainerState) -> Self {
        match state {
            pb::ContainerState::ContainerCreated => Self::Created,
            pb::ContainerState::ContainerRunning => Self::Running,
            pb::ContainerState::ContainerExited => Self::Exited,
            pb::ContainerState::ContainerUnknown => Self::Unknown,
        }
    }
}

/// One container of the Pod, alive or dead.
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerState {
    /// The runtime's id, without its scheme.
    pub id: String,
    /// Name within the Pod.
    pub name: String,
    /// The sandbox it lives in; empty when the runtime does not say.
    pub sandbox_id: String,
    /// See [`Stage`].
    pub stage: Stage,
    /// Nanoseconds since 1970; zero: not yet. So are the next two.
    pub created_at: i64,
    /// When its process started.
    pub started_at: i64,
    /// When its process ended.
    pub finished_at: i64,
    /// Of a process that ended.
    pub exit_code: i32,
    /// `Completed`, `Error`, `OOMKilled`, …
    pub reason: String,
    /// What the runtime has to say, and the container's own last words.
    pub message: String,
    /// The image as the runtime names it.
    pub image: String,
    /// The image's digest form: the API's `imageID`.
    pub image_ref: String,
    /// Where its output goes.
    pub log_path: String,
    /// What we wrote down when making it.
    pub annotated: Annotated,
    /// Its mounts: (path in the container, path on the host).
    pub mounts: Vec<(String, String)>,
}

/// One sandbox of the Pod.
#[derive(Debug, Clone, PartialEq)]
pub struct SandboxState {
    /// The runtime's id.
    pub id: String,
    /// Counts the sandboxes of a Pod.
    pub attempt: u32,
    /// Its namespaces and network stand.
    pub ready: bool,
    /// Nanoseconds since 1970.
    pub created_at: i64,
    /// Addresses of the Pod; empty on the host's network.
    pub ips: Vec<String>,
    /// It uses the host's network.
    pub host_network: bool,
}

/// All that the runtime has of a Pod, newest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodState {
    /// Newest first.
    pub sandboxes: Vec<SandboxState>,
    /// Newest first, all attempts.
    pub containers: Vec<ContainerState>,
}

impl PodState {
    /// The newest container of that name.
    pub fn latest(&self, name: &str) -> Option<&ContainerState> {
        self.containers.iter().find(|container| container.name == name)
    }

    /// The newest container of that name in the newest sandbox.
    pub fn active(&self, name: &str) -> Option<&ContainerState> {
        let sandbox = self.sandboxes.first()?;
        self.latest(name).filter(|container| container.sandbox_id.is_empty() || container.sandbox_id == sandbox.id)
    }

    /// Containers whose process may be alive.
    pub fn alive(&self) -> impl Iterator<Item = &ContainerState> {
        self.containers.iter().filter(|container| matches!(container.stage, Stage::Running | Stage::Unknown))
    }

    /// Addresses of the Pod, once its sandbox stands.
    pub fn ips(&self) -> &[String] {
        self.sandboxes.first().filter(|sandbox| sandbox.ready).map(|sandbox| sandbox.ips.as_slice()).unwrap_or_default()
    }

    /// Nothing of the Pod is in the runtime any more.
    pub fn is_empty(&self) -> bool {
        self.sandboxes.is_empty() && self.containers.is_empty()
    }
}

impl Cri {
    /// Reads all that the runtime has of a Pod.
    pub async fn pod_state(&self, uid: &str) -> Result<PodState> {
        let (sandboxes, containers) =
            tokio::try_join!(self.list_pod_sandboxes(Some(uid)), self.list_containers(Some(uid)))?;
        let owners: HashMap<&str, &str> =
            containers.iter().map(|c| (c.id.as_str(), c.pod_sandbox_id.as_str())).collect();
        let statuses: FuturesUnordered<_> = containers.iter().map(|c| self.container_status(&c.id)).collect();
        let details: FuturesUnordered<_> = sandboxes.iter().map(|s| self.pod_sandbox_status(&s.id)).collect();
        let (statuses, details): (Vec<_>, Vec<_>) =
            tokio::try_join!(statuses.try_collect::<Vec<_>>(), details.try_collect::<Vec<_>>())?;

        let mut state = PodState {
            sandboxes: details.into_iter().flatten().map(sandbox).collect(),
            containers: statuses
                .into_iter()
                .flatten()
                .map(|status| {
                    let owner = owners.get(status.id.as_str()).copied().unwrap_or_default().to_owned();
                    container(status, owner)
                })
                .collect(),
        };
        state.sandboxes.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
        state.containers.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
        Ok(state)
    }
}

fn sandbox(status: pb::PodSandboxStatus) -> SandboxState {
    let ready = status.state() == pb::PodSandboxState::SandboxReady;
    let network = status.network.unwrap_or_default();
    let ips = std::iter::once(network.ip)
        .chain(network.additional_ips.into_iter().map(|ip| ip.ip))
        .filter(|ip| !ip.is_empty())
        .collect();
    let host_network = status
        .linux
        .and_then(|linux| linux.namespaces)
        .and_then(|namespaces| namespaces.options)
        .is_some_and(|options| options.network() == pb::NamespaceMode::Node);
    SandboxState {
        attempt: status.metadata.map(|meta| meta.attempt).unwrap_or_default(),
        id: status.id,
        ready,
        created_at: status.created_at,
        ips,
        host_network,
    }
}

fn container(status: pb::ContainerStatus, sandbox_id: String) -> ContainerState {
    let stage = Stage::from(status.state());
    let exited = stage == Stage::Exited;
    let annotated = Annotated::read(&status.annotations);
    ContainerState {
        sandbox_id,
        stage,
        name: status.labels.get(names::CONTAINER_NAME).cloned().unwrap_or_default(),
        created_at: status.created_at,
        started_at: if stage == Stage::Created { 0 } else { status.started_at },
        finished_at: if exited { status.finished_at } else { 0 },
        exit_code: if exited { status.exit_code } else { 0 },
        reason: if exited { status.reason } else { String::new() },
        message: if exited { status.message } else { String::new() },
        image: status.image.map(|image| image.image).unwrap_or_default(),
        image_ref: status.image_ref,
        log_path: status.log_path,
        annotated,
        mounts: status.mounts.into_iter().map(|mount| (mount.container_path, mount.host_path)).collect(),
        id: status.id,
    }
}
