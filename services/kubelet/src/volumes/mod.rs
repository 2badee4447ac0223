//! Volumes of Pods: emptyDir, configMap, secret, downwardAPI, projected and hostPath.
//!
//! [`Volumes::set_up`] is called in every sync and is idempotent: it makes what is missing and renews what changed, so
//! live updates need no other path. Everything of a Pod lies below `<root-dir>/pods/<uid>`, as upstream lays it out.

mod atomic;
mod empty_dir;
mod mounted;
mod mounts;
mod needs;
mod ownership;
mod payload;
mod removal;
mod subpath;
mod tmpfs;
mod token;

pub use needs::warm;
pub use token::Tokens;

use crate::api::Objects;
use crate::error::{Error, Result};
use crate::pod::fields::Surroundings;
use crate::pod::view::{self, spec};
use k8s_openapi::api::core::v1::{HostPathVolumeSource, Pod, Volume};
use payload::{Payload, Sources};
use std::collections::BTreeMap;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

/// A volume that stands: where it is on the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// On the node.
    pub path: PathBuf,
    /// Whatever the mount says, it is not to be written.
    pub read_only: bool,
}

/// The volumes of one Pod by name.
pub type Volumes = BTreeMap<String, Standing>;

/// The folder of Pods on this node.
#[derive(Debug, Clone)]
pub struct VolumeRoot {
    root: PathBuf,
}

impl VolumeRoot {
    /// Below `--root-dir`, which is made if it is missing. What Pods have there is for nobody else on the node.
    pub fn open(root_dir: &Path) -> Result<Self> {
        make_closed(root_dir)?;
        // The kernel names mounts by the way without links, and so must whoever looks for them.
        let root = root_dir.canonicalize().map_err(|error| Error::io("resolve", root_dir, error))?;
        let pods = root.join("pods");
        make_closed(&pods)?;
        close(&pods)?;
        Ok(Self { root })
    }

    /// `--root-dir` without links.
    pub fn root_dir(&self) -> &Path {
        &self.root
    }

    /// The folder of one Pod.
    pub fn pod_dir(&self, uid: &str) -> PathBuf {
        self.root.join("pods").join(uid)
    }

    /// Uids of the Pods that have a folder.
    pub fn pods(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.root.join("pods")) else { return Vec::new() };
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
    }

    /// Makes the Pod's folders.
    pub fn make_pod_dirs(&self, uid: &str) -> Result<()> {
        let pod = self.pod_dir(uid);
        for dir in [pod.clone(), pod.join("volumes"), pod.join("plugins"), pod.join("containers")] {
            make_closed(&dir)?;
            close(&dir)?;
        }
        Ok(())
    }

    /// Makes the volumes of a Pod stand, and brings them up to date. Without `tokens` these are left out.
    pub async fn set_up(
        &self,
        pod: &Pod,
        around: &Surroundings,
        objects: &dyn Objects,
        mut tokens: Option<&mut Tokens>,
    ) -> Result<Volumes> {
        self.make_pod_dirs(view::uid(pod))?;
        let mut standing = Volumes::new();
        for volume in needs::volumes(pod) {
            let one = self.one(pod, volume, around, objects, tokens.as_deref_mut()).await.map_err(|error| {
                Error::Pod(format!("MountVolume.SetUp failed for volume \"{}\" : {error}", volume.name))
            })?;
            standing.insert(volume.name.clone(), one);
        }
        Ok(standing)
    }

    fn path(&self, pod: &Pod, plugin: &str, volume: &Volume) -> PathBuf {
        self.pod_dir(view::uid(pod)).join("volumes").join(format!("kubernetes.io~{plugin}")).join(&volume.name)
    }

    async fn one(
        &self,
        pod: &Pod,
        volume: &Volume,
        around: &Surroundings,
        objects: &dyn Objects,
        tokens: Option<&mut Tokens>,
    ) -> Result<Standing> {
        let mut sources = Sources { pod, around, objects, tokens, volume: &volume.name };
        if let Some(source) = &volume.empty_dir {
            let path = self.path(pod, "empty-dir", volume);
            empty_dir::set_up(&path, pod, source, around)?;
            return Ok(Standing { path, read_only: false });
        }
        if let Some(source) = &volume.host_path {
            return host_path(source);
        }
        let (plugin, payload, in_memory) = if let Some(source) = &volume.config_map {
            ("configmap", sources.config_map_volume(source).await?, false)
        } else if let Some(source) = &volume.secret {
            ("secret", sources.secret_volume(source).await?, true)
        } else if let Some(source) = &volume.downward_api {
            ("downward-api", sources.downward_volume(source)?, false)
        } else if let Some(source) = &volume.projected {
            ("projected", sources.projected_volume(source).await?, true)
        } else {
            return Err(Error::Pod("no volume plugin matched".into()));
        };
        let path = self.path(pod, plugin, volume);
        write(pod, &path, &payload, in_memory)?;
        Ok(Standing { path, read_only: true })
    }

    /// Takes down all volumes of a Pod and removes its folder. Of what is mounted there nothing is removed.
    pub fn tear_down(&self, uid: &str) -> Result<()> {
        let dir = self.pod_dir(uid);
        let mut parts = Path::new(uid).components();
        if !matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) || !dir.exists() {
            return Ok(());
        }
        mounted::unmount_below(&dir)?;
        removal::remove(&dir).map_err(|errno| Error::io("remove", &dir, errno.into()))
    }
}

/// The kubelet's folders: root's, and its group may look.
const CLOSED: u32 = 0o750;

/// Makes a folder, and those above it that are missing, for root and its group only.
pub(crate) fn make_closed(dir: &Path) -> Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(CLOSED).create(dir).map_err(|error| Error::io("create", dir, error))
}

/// Takes from a folder that was there before what others may do in it.
fn close(dir: &Path) -> Result<()> {
    let mode = std::fs::metadata(dir).map_err(|error| Error::io("look at", dir, error))?.mode();
    if mode & 0o7777 & !CLOSED == 0 {
        return Ok(());
    }
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(mode & CLOSED))
        .map_err(|error| Error::io("change the mode of", dir, error))
}

fn fs_group(pod: &Pod) -> Result<Option<u32>> {
    let Some(group) = spec(pod).security_context.as_ref().and_then(|context| context.fs_group) else { return Ok(None) };
    u32::try_from(group).map(Some).map_err(|_| Error::Pod(format!("fsGroup {group} is out of range")))
}

fn write(pod: &Pod, path: &Path, payload: &Payload, in_memory: bool) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|error| Error::io("create", path, error))?;
    if in_memory {
        tmpfs::mount(path, None, None)?;
    }
    ownership::open_to_all(path)?;
    atomic::write(path, payload, fs_group(pod)?).map(drop)
}

/// hostPath makes what its type says may be made, and refuses what is not of its type.
fn host_path(source: &HostPathVolumeSource) -> Result<Standing> {
    use std::os::unix::fs::FileTypeExt as _;
    let path = PathBuf::from(&source.path);
    let kind = source.type_.as_deref().unwrap_or_default();
    let set_mode = |mode| {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))
            .map_err(|error| Error::io("change the mode of", &path, error))
    };
    match kind {
        "DirectoryOrCreate" if !path.exists() => {
            std::fs::create_dir_all(&path).map_err(|error| Error::io("create", &path, error))?;
            set_mode(0o755)?;
        }
        "FileOrCreate" if !path.exists() => {
            std::fs::write(&path, "").map_err(|error| Error::io("create", &path, error))?;
            set_mode(0o644)?;
        }
        _ => {}
    }
    let refuse = |what: &str| Err(Error::Pod(format!("hostPath type check failed: {} is not {what}", source.path)));
    let meta = std::fs::metadata(&path).ok();
    let is = |check: &dyn Fn(&std::fs::Metadata) -> bool| meta.as_ref().is_some_and(check);
    match kind {
        "Directory" | "DirectoryOrCreate" if !is(&|meta| meta.is_dir()) => return refuse("a directory"),
        "File" | "FileOrCreate" if !is(&|meta| meta.is_file()) => return refuse("a file"),
        "Socket" if !is(&|meta| meta.file_type().is_socket()) => return refuse("a socket file"),
        "CharDevice" if !is(&|meta| meta.file_type().is_char_device()) => return refuse("a character device"),
        "BlockDevice" if !is(&|meta| meta.file_type().is_block_device()) => return refuse("a block device"),
        _ => {}
    }
    Ok(Standing { path, read_only: false })
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

#[cfg(test)]
#[path = "mount_tests.rs"]
mod mount_tests;
