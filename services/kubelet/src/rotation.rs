//! Logs that grew too long are put aside, and the oldest are removed.

use crate::cri::Cri;
use crate::error::{Error, Result};
use k8s_openapi::jiff::Timestamp;
use std::path::{Path, PathBuf};
use std::time::Duration;
use trireme_proto::runtime::v1 as pb;

const PERIOD: Duration = Duration::from_secs(10);

/// The task that looks after them.
pub(crate) async fn keep(cri: Cri, max_bytes: u64, max_files: usize) {
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Ok(containers) = cri.list_containers(None).await else { continue };
        for container in containers.iter().filter(|container| container.state() == pb::ContainerState::ContainerRunning)
        {
            let Ok(Some(status)) = cri.container_status(&container.id).await else { continue };
            let path = Path::new(&status.log_path);
            let long = std::fs::metadata(path).is_ok_and(|meta| meta.len() > max_bytes);
            if !long || status.log_path.is_empty() {
                continue;
            }
            if let Err(error) = rotate(&cri, &container.id, path, max_files).await {
                tracing::warn!(%error, log = status.log_path, "a log was not rotated");
            }
        }
    }
}

async fn rotate(cri: &Cri, id: &str, path: &Path, max_files: usize) -> Result<()> {
    // With the one that is being written there are as many as allowed.
    let mut old = set_aside(path);
    old.sort();
    let surplus = (old.len() + 2).saturating_sub(max_files);
    for file in old.iter().take(surplus) {
        std::fs::remove_file(file).map_err(|error| Error::io("remove", file, error))?;
    }
    let mut aside = path.as_os_str().to_owned();
    aside.push(Timestamp::now().strftime(".%Y%m%d-%H%M%S").to_string());
    let aside = PathBuf::from(aside);
    std::fs::rename(path, &aside).map_err(|error| Error::io("move", path, error))?;
    if let Err(error) = cri.reopen_container_log(id).await {
        // The runtime goes on writing to the old file: it must keep its name.
        std::fs::rename(&aside, path).map_err(|error| Error::io("move back", path, error))?;
        return Err(error);
    }
    Ok(())
}

/// What was put aside of a log.
pub(crate) fn set_aside(path: &Path) -> Vec<PathBuf> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Vec::new();
    };
    let prefix = format!("{name}.");
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let ours = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
    ours.map(|entry| entry.path()).collect()
}
