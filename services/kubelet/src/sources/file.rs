//! Static Pods: manifests in a folder (or one file), looked at once a second.

use crate::error::{Error, Result};
use crate::manager::{Births, FromFiles, Manager};
use crate::pod::view;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use trireme_service::actor::Address;

const PERIOD: Duration = Duration::from_secs(1);

type Stamps = BTreeMap<PathBuf, (SystemTime, u64)>;

/// Follows the manifests and tells the manager whenever they change.
pub async fn follow(path: PathBuf, node: String, manager: Address<Manager>, mut births: Births) {
    let mut last: Option<Stamps> = None;
    let mut seen = BTreeMap::new();
    let mut ticks = tokio::time::interval(PERIOD);
    loop {
        ticks.tick().await;
        let reborn = births.has_changed().unwrap_or_default();
        births.mark_unchanged();
        let stamps = stamps(&path);
        if last.as_ref() == Some(&stamps) && !reborn {
            continue;
        }
        let pods = stamps
            .keys()
            .filter_map(|file| match read(file, &node, &mut seen) {
                Ok(pod) => Some(Arc::new(pod)),
                Err(error) => {
                    tracing::error!(%error, file = %file.display(), "a manifest can't be used");
                    None
                }
            })
            .collect();
        last = Some(stamps);
        if let Err(error) = manager.send(FromFiles(pods)).await {
            tracing::error!(%error, "the manager lost the static Pods");
            last = None;
        }
    }
}

fn stamps(path: &Path) -> Stamps {
    let files: Vec<PathBuf> = match std::fs::read_dir(path) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(_) => vec![path.to_owned()],
    };
    let visible = |file: &PathBuf| file.file_name().is_some_and(|name| !name.to_string_lossy().starts_with('.'));
    files
        .into_iter()
        .filter(visible)
        .filter_map(|file| {
            let meta = std::fs::metadata(&file).ok().filter(std::fs::Metadata::is_file)?;
            Some((file, (meta.modified().ok()?, meta.len())))
        })
        .collect()
}

/// Reads a manifest and makes of it the Pod that runs here.
fn read(file: &Path, node: &str, seen: &mut BTreeMap<String, Timestamp>) -> Result<Pod> {
    let text = std::fs::read_to_string(file).map_err(|error| Error::io("read", file, error))?;
    let value: serde_json::Value = serde_saphyr::from_str(&text).map_err(|error| Error::Pod(error.to_string()))?;
    let mut pod = crate::defaults::pod(value)?;
    let name = pod.metadata.name.clone().filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| Error::Pod("metadata.name: Required value".into()))?;
    if pod.metadata.uid.as_deref().is_none_or(str::is_empty) {
        let mut hash = Sha256::new();
        for part in [node.as_bytes(), file.as_os_str().as_encoded_bytes(), text.as_bytes()] {
            hash.update(part);
            hash.update([0]);
        }
        let digest = hash.finalize();
        pod.metadata.uid = Some(digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect());
    }
    let uid = view::uid(&pod).to_owned();
    pod.metadata.name = Some(format!("{name}-{}", node.to_lowercase()));
    if view::namespace(&pod).is_empty() {
        pod.metadata.namespace = Some("default".into());
    }
    let seen = *seen.entry(uid.clone()).or_insert_with(Timestamp::now);
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(view::CONFIG_HASH.into(), uid);
    annotations.insert(view::CONFIG_SOURCE.into(), "file".into());
    annotations.insert(view::CONFIG_SEEN.into(), seen.to_string());
    let spec = pod.spec.get_or_insert_default();
    spec.node_name = Some(node.to_owned());
    // A static Pod stays whatever becomes of the node.
    spec.tolerations.get_or_insert_default().push(k8s_openapi::api::core::v1::Toleration {
        operator: Some("Exists".into()),
        effect: Some("NoExecute".into()),
        ..Default::default()
    });
    pod.status = None;
    Ok(pod)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_becomes_a_pod_of_the_node() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.yaml");
        std::fs::write(
            &file,
            "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c, image: i}]}\n",
        )
        .unwrap();
        let mut seen = BTreeMap::new();
        let pod = read(&file, "Node1", &mut seen).unwrap();
        assert_eq!((view::name(&pod), view::namespace(&pod)), ("web-node1", "default"));
        assert!(view::is_static(&pod));
        assert_eq!(view::uid(&pod).len(), 32);
        assert_eq!(read(&file, "Node1", &mut seen).unwrap(), pod, "the same file is the same Pod");
        assert_eq!(stamps(dir.path()).len(), 1);
    }
}
