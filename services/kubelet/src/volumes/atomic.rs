//! Files that change all at once.
//!
//! A reader in the container sees either the old set of files or the new one, never a mixture: the files lie in a
//! folder named after the time, `..data` is a link to it, and what the Pod names are links through `..data`. Whose the
//! files are and who may read them is settled before the link is turned, so that no reader sees them otherwise.

use super::ownership;
use super::payload::{File, Payload};
use crate::error::{Error, Result};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown, symlink};
use std::path::{Component, Path, PathBuf};

const DATA: &str = "..data";
const DATA_NEW: &str = "..data_tmp";

/// Folders may be walked through by whoever the container runs as, whatever the umask is.
const FOLDER: u32 = 0o755;

/// Makes the folder hold just these files, for `group` too if there is one; says whether anything changed.
pub(super) fn write(target: &Path, payload: &Payload, group: Option<u32>) -> Result<bool> {
    for path in payload.keys() {
        check(path)?;
    }
    let old = fs::read_link(target.join(DATA)).ok();
    if old.as_ref().is_some_and(|old| holds(&target.join(old), payload, group)) && links_stand(target, payload) {
        return Ok(false);
    }
    let fresh = OsString::from(k8s_openapi::jiff::Timestamp::now().strftime("..%Y_%m_%d_%H_%M_%S.%N").to_string());
    let files = target.join(&fresh);
    if let Err(error) = fill(&files, payload).and_then(|()| ownership::give_to_group(&files, group, true)) {
        // The next try has a folder of its own: none of those that failed may fill the disk.
        let _ = remove(&files);
        return Err(error);
    }
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
    ownership::give_to_group(target, group, true)?;
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

/// Does it hold these files and no others, as they are to be? Upstream's writer looks at their contents only.
fn holds(dir: &Path, payload: &Payload, group: Option<u32>) -> bool {
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
            if !is_as(&entry.path(), file, group) {
                return false;
            }
            found += 1;
        }
    }
    found == payload.len()
}

fn is_as(path: &Path, file: &File, group: Option<u32>) -> bool {
    let mode = ownership::with_group(file.mode, group);
    let told = fs::symlink_metadata(path).is_ok_and(|meta| {
        meta.mode() & 0o7777 == mode
            && file.owner.is_none_or(|owner| owner == meta.uid())
            && group.is_none_or(|group| group == meta.gid())
    });
    told && fs::read(path).ok().as_deref() == Some(file.data.as_slice())
}

fn fill(dir: &Path, payload: &Payload) -> Result<()> {
    make_dir(dir)?;
    for (path, file) in payload {
        let mut parent = dir.to_owned();
        for part in Path::new(path).parent().into_iter().flat_map(Path::components) {
            parent.push(part);
            make_dir(&parent)?;
        }
        put(&dir.join(path), file)?;
    }
    Ok(())
}

fn make_dir(dir: &Path) -> Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    fs::create_dir(dir).map_err(|error| Error::io("create", dir, error))?;
    fs::set_permissions(dir, fs::Permissions::from_mode(FOLDER))
        .map_err(|error| Error::io("change the mode of", dir, error))
}

/// Writes a file that nobody can read before its time: it is made with its mode (less the umask), then given to its
/// owner, and only then has all of its mode.
fn put(path: &Path, File { data, mode, owner }: &File) -> Result<()> {
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(*mode)
        .open(path)
        .map_err(|error| Error::io("create", path, error))?;
    file.write_all(data).map_err(|error| Error::io("write", path, error))?;
    if owner.is_some() {
        fchown(&file, *owner, None).map_err(|error| Error::io("change the owner of", path, error))?;
    }
    file.set_permissions(fs::Permissions::from_mode(*mode))
        .map_err(|error| Error::io("change the mode of", path, error))
}

fn remove(path: &Path) -> Result<()> {
    let Ok(meta) = fs::symlink_metadata(path) else { return Ok(()) };
    let removed = if meta.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.map_err(|error| Error::io("remove", path, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn payload(mode: u32) -> Payload {
        let file = |data: &str| File { data: data.into(), mode, owner: None };
        [("top".to_owned(), file("1")), ("deep/er/x".to_owned(), file("2"))].into()
    }

    fn look(path: &Path) -> (u32, u32) {
        let meta = fs::metadata(path).unwrap();
        (meta.mode() & 0o7777, meta.gid())
    }

    #[test]
    fn another_mode_or_group_alone_is_a_change() {
        let dir = tempfile::tempdir().unwrap();
        let change = |mode, group| write(dir.path(), &payload(mode), group).unwrap();
        assert!(change(0o644, None));
        assert!(!change(0o644, None));
        assert!(change(0o400, None));
        assert_eq!(look(&dir.path().join("deep/er/x")).0, 0o400);
        assert!(change(0o400, Some(4711)));
        assert_eq!(look(&dir.path().join("deep/er/x")), (0o440, 4711), "as upstream gives it to the group");
        assert_eq!(look(&dir.path().join("deep/er")), (0o2755, 4711));
        assert!(!change(0o400, Some(4711)));
        assert!(change(0o600, Some(4712)));
        assert_eq!(look(&dir.path().join("top")), (0o640, 4712));
        // Whatever made it otherwise, it is mended.
        fs::set_permissions(dir.path().join("top"), fs::Permissions::from_mode(0o666)).unwrap();
        assert!(change(0o600, Some(4712)));
        assert_eq!(look(&dir.path().join("top")), (0o640, 4712));
    }

    #[test]
    fn a_secret_is_at_no_time_readable_by_others() {
        let dir = tempfile::tempdir().unwrap();
        let (target, done) = (dir.path(), AtomicBool::new(false));
        let mut modes = BTreeSet::new();
        std::thread::scope(|scope| {
            let seen = scope.spawn(|| {
                let mut modes = BTreeSet::new();
                while !done.load(Ordering::Relaxed) {
                    for entry in fs::read_dir(target).into_iter().flatten().flatten() {
                        modes.extend(fs::metadata(entry.path().join("top")).map(|meta| meta.mode() & 0o7777));
                    }
                }
                modes
            });
            for n in 0..2000 {
                let file = File { data: format!("{n}").into(), mode: 0o400, owner: None };
                write(target, &[("top".to_owned(), file)].into(), None).unwrap();
            }
            done.store(true, Ordering::Relaxed);
            modes = seen.join().unwrap();
        });
        assert_eq!(modes, [0o400].into());
    }

    #[test]
    fn a_try_that_failed_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &payload(0o644), None).unwrap();
        let file = || File { data: Vec::new(), mode: 0o644, owner: None };
        // A file where a folder is to be.
        let impossible: Payload = [("a".to_owned(), file()), ("a/b".to_owned(), file())].into();
        write(dir.path(), &impossible, None).unwrap_err();
        assert_eq!(fs::read_to_string(dir.path().join("top")).unwrap(), "1");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4, "..data, its folder, top and deep");
    }
}
