//! Folders that live as long as the Pod.

use super::{fs_group, ownership, tmpfs};
use crate::error::{Error, Result};
use crate::pod::fields::Surroundings;
use crate::pod::resources;
use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, Pod};
use std::ffi::OsString;
use std::path::Path;
use trireme_machinery::quantity::Quantity;

/// Makes it stand. What is in one that stands is the Pod's, and so are its modes.
pub(super) fn set_up(path: &Path, pod: &Pod, source: &EmptyDirVolumeSource, around: &Surroundings) -> Result<()> {
    let group = fs_group(pod)?;
    match source.medium.as_deref().unwrap_or_default() {
        "" => make(path, group),
        "Memory" => {
            make(path, group)?;
            tmpfs::mount(path, size(pod, source, around), group).map(drop)
        }
        other => Err(Error::Pod(format!("unknown storage medium \"{other}\""))),
    }
}

/// It has its name only once everybody may use it: a kubelet that ends half-way leaves nothing that looks finished.
fn make(path: &Path, group: Option<u32>) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    let mut fresh = OsString::from(path);
    // No volume has a name with a dot.
    fresh.push(".new");
    let fresh = Path::new(&fresh);
    std::fs::create_dir_all(fresh).map_err(|error| Error::io("create", fresh, error))?;
    ownership::open_to_all(fresh)?;
    ownership::give_to_group(fresh, group, false)?;
    std::fs::rename(fresh, path).map_err(|error| Error::io("rename", fresh, error))
}

/// Bytes of memory that it may take: what the Pod may use in all, or what the node has for Pods, unless it asks for
/// less.
fn size(pod: &Pod, source: &EmptyDirVolumeSource, around: &Surroundings) -> Option<i64> {
    let asked = source.size_limit.as_ref().and_then(|limit| Quantity::parse(&limit.0).ok());
    let all = [Some(around.node_memory), resources::pod_limits(pod).memory, asked.map(|limit| limit.value())];
    all.into_iter().flatten().filter(|bytes| *bytes > 0).min()
}
