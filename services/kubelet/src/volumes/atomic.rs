//! Files that change all at once.
//!
//! A reader in the container sees either the old set of files or the new one, never a mixture: the files lie in a
//! folder named after the time, `..data` is a link to it, and what the Pod names are links through `..data`.

use super::payload::{File, Payload};
use crate::error::{Error, Result};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};

const DATA: &str = "..data";
const DATA_NEW: &str = "..data_tmp";

/// Makes the folder hold just these files; says whether anything changed.
pub(super) fn write(target: &Path, payload: &Payload) -> Result<bool> {
    for path in payload.keys() {
        check(path)?;
    }
    let old = fs::read_link(target.join(DATA)).ok();
    if old.as_ref().is_some_and(|old| holds(&target.join(old), payload)) && links_stand(target, payload) {
        return Ok(false);
    }
    let fresh = OsString::from(k8s_openapi::jiff::Timestamp::now().strftime("..%Y_%m_%d_%H_%M_%S.%N").to_string());
    fill(&target.join(&fresh), payload)?;
    let link = target.join(DATA_NEW);
    remove(&link)?;
    symlink(&fresh, &link).map_err(|error| Error::io("link", &link, error))?;
    let data = target.join(DATA);
    fs::rename(&link, &data).map_err(|error| Error::io("replace", &data, error))?;
    let wanted = first_parts(payload);
    for part in &wanted {
        let link = target.join(part);
        let through = Path::new(DATA).join(part);
        if fs::read_link(&link).ok().as_deref() != Some(through.as_path()) {
            remove(&link)?;
            symlink(&through, &link).map_err(|error| Error::io("link", &link, error))?;
        }
    }
    for entry in fs::read_dir(target).map_err(|error| Error::io("read", target, error))?.flatten() {
        let name = entry.file_name();
        if name != fresh && name != DATA && !wanted.contains(&name) {
            remove(&entry.path())?;
        }
    }
    Ok(true)
}

/// Paths of a payload come from users: none may lead out of the volume.
fn check(path: &str) -> Result<()> {
    let as_path = Path::new(path);
    let plain = as_path.components().all(|part| matches!(part, Component::Normal(_)));
    if path.is_empty() || !plain {
        return Err(Error::Pod(format!("invalid path: must be relative and not contain '..': {path}")));
    }
    if path.starts_with("..") {
        return Err(Error::Pod(format!("invalid path: must not start with '..': {path}")));
    }
    Ok(())
}

fn first_parts(payload: &Payload) -> BTreeSet<OsString> {
    payload
        .keys()
        .filter_map(|path| match Path::new(path).components().next() {
            Some(Component::Normal(part)) => Some(part.to_owned()),
            _ => None,
        })
        .collect()
}

fn links_stand(target: &Path, payload: &Payload) -> bool {
    first_parts(payload).iter().all(|part| fs::read_link(target.join(part)).is_ok())
}

fn holds(dir: &Path, payload: &Payload) -> bool {
    let mut found = 0;
    let mut pending = vec![PathBuf::new()];
    while let Some(relative) = pending.pop() {
        let Ok(entries) = fs::read_dir(dir.join(&relative)) else { return false };
        for entry in entries.flatten() {
            let relative = relative.join(entry.file_name());
            if entry.path().is_dir() {
                pending.push(relative);
                continue;
            }
            let Some(file) = relative.to_str().and_then(|path| payload.get(path)) else { return false };
            if fs::read(entry.path()).ok().as_deref() != Some(file.data.as_slice()) {
                return false;
            }
            found += 1;
        }
    }
    found == payload.len()
}

fn fill(dir: &Path, payload: &Payload) -> Result<()> {
    fs::create_dir_all(dir).map_err(|error| Error::io("create", dir, error))?;
    for (path, File { data, mode, owner }) in payload {
        let file = dir.join(path);
        if let Some(parent) = file.parent() {
            fs::create_dir_all(parent).map_err(|error| Error::io("create", parent, error))?;
        }
        fs::write(&file, data).map_err(|error| Error::io("write", &file, error))?;
        fs::set_permissions(&file, fs::Permissions::from_mode(*mode))
            .map_err(|error| Error::io("change the mode of", &file, error))?;
        if let Some(owner) = owner {
            std::os::unix::fs::chown(&file, Some(*owner), None)
                .map_err(|error| Error::io("change the owner of", &file, error))?;
        }
    }
    Ok(())
}

fn remove(path: &Path) -> Result<()> {
    let Ok(meta) = fs::symlink_metadata(path) else { return Ok(()) };
    let removed = if meta.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.map_err(|error| Error::io("remove", path, error))
}
