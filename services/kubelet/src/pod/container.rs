//! What the runtime is told of a container.

use super::env::{self, Env};
use super::resources;
use super::security::{self, ImageUser};
use super::{termination, view};
use crate::cri::names;
use crate::error::{Error, Result};
use k8s_openapi::api::core::v1::{Container, Pod};
use std::path::{Path, PathBuf};
use trireme_proto::runtime::v1 as pb;

/// All that a container's config is made of, besides the Pod.
#[derive(Debug)]
pub struct Parts<'a> {
    /// How often it was restarted.
    pub restart_count: u32,
    /// The image as the runtime resolved it.
    pub image_ref: &'a str,
    /// Who the image runs as.
    pub image_user: &'a ImageUser,
    /// Its environment.
    pub env: &'a Env,
    /// Volumes, /etc/hosts.
    pub mounts: Vec<pb::Mount>,
    /// The kubelet's folder.
    pub root_dir: &'a Path,
    /// The Pod's folder in it.
    pub pod_dir: &'a Path,
    /// The node's memory, for oom scores.
    pub node_memory: i64,
    /// The container whose processes an ephemeral container looks at.
    pub target: Option<&'a str>,
}

/// The config of a container; makes the file for its last words.
pub fn config(pod: &Pod, container: &Container, parts: Parts<'_>) -> Result<pb::ContainerConfig> {
    let mut context = security::context(pod, container, parts.image_user, parts.root_dir)?;
    if let (Some(target), Some(options)) = (parts.target, context.namespace_options.as_mut())
        && options.pid() == pb::NamespaceMode::Container
    {
        options.pid = pb::NamespaceMode::Target.into();
        options.target_id = target.to_owned();
    }
    let mut mounts = parts.mounts;
    mounts.extend(termination_log(container, parts.pod_dir)?);
    let stop_signal = container
        .lifecycle
        .as_ref()
        .and_then(|lifecycle| lifecycle.stop_signal.as_deref())
        .and_then(|signal| {
            pb::Signal::from_str_name(&format!("SIGNAL_{}", signal.replace('+', "PLUS").replace('-', "MINUS")))
        })
        .unwrap_or(pb::Signal::RuntimeDefault);
    Ok(pb::ContainerConfig {
        metadata: Some(pb::ContainerMetadata { name: container.name.clone(), attempt: parts.restart_count }),
        image: Some(pb::ImageSpec {
            image: parts.image_ref.to_owned(),
            user_specified_image: container.image.clone().unwrap_or_default(),
            ..Default::default()
        }),
        command: env::expand_all(container.command.as_ref(), parts.env),
        args: env::expand_all(container.args.as_ref(), parts.env),
        working_dir: container.working_dir.clone().unwrap_or_default(),
        envs: parts
            .env
            .iter()
            .map(|(key, value)| pb::KeyValue { key: key.clone(), value: value.clone().into_bytes().into() })
            .collect(),
        mounts,
        labels: names::container_labels(pod, container),
        annotations: names::container_annotations(pod, container, parts.restart_count),
        log_path: log_path(&container.name, parts.restart_count),
        stdin: container.stdin.unwrap_or_default(),
        stdin_once: container.stdin_once.unwrap_or_default(),
        tty: container.tty.unwrap_or_default(),
        linux: Some(pb::LinuxContainerConfig {
            resources: Some(resources::container_limits(pod, container, parts.node_memory)),
            security_context: Some(context),
        }),
        stop_signal: stop_signal.into(),
        ..Default::default()
    })
}

/// A fresh file for every run, mounted where the container writes why it ended.
fn termination_log(container: &Container, pod_dir: &Path) -> Result<Option<pb::Mount>> {
    use std::os::unix::fs::PermissionsExt as _;
    let path = container.termination_message_path.as_deref().unwrap_or("/dev/termination-log");
    if path.is_empty() {
        return Ok(None);
    }
    let dir = termination::directory(pod_dir, &container.name);
    std::fs::create_dir_all(&dir).map_err(|error| Error::io("create", &dir, error))?;
    let file = dir.join(&uuid::Uuid::new_v4().simple().to_string()[..8]);
    std::fs::write(&file, "").map_err(|error| Error::io("create", &file, error))?;
    // Whoever the container runs as must be able to write it.
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666))
        .map_err(|error| Error::io("change the mode of", &file, error))?;
    Ok(Some(pb::Mount {
        container_path: if path.starts_with('/') { path.to_owned() } else { format!("/{path}") },
        host_path: file.to_string_lossy().into_owned(),
        ..Default::default()
    }))
}

/// Where a container's output goes, below the Pod's folder of logs.
pub fn log_path(container: &str, restart_count: u32) -> String {
    format!("{container}/{restart_count}.log")
}

/// The Pod's folder of logs.
pub fn log_directory(pod_logs: &Path, pod: &Pod) -> PathBuf {
    pod_logs.join(format!("{}_{}_{}", view::namespace(pod), view::name(pod), view::uid(pod)))
}

/// The next restart count when the runtime has forgotten: one more than the newest log says.
pub fn restart_count_from_logs(directory: &Path) -> u32 {
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.split_once(".log")?.0.parse::<u32>().ok())
        .max()
        .map_or(0, |newest| newest + 1)
}
