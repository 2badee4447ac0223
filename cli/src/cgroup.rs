//! The cgroups of an instance's nodes: what runs in them is ended, and they are removed.
//!
//! Containers outlive containerd and its shims. Where these are dead, the cgroup tree alone still tells whose a process
//! is. On cgroup v1 every controller has a tree of its own, on v2 there is one.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::bail;

use crate::process::{self, POLL};

/// Where cgroups are mounted.
const MOUNT: &str = "/sys/fs/cgroup";
/// How long processes may take to end after SIGKILL: the kernel frees their memory first.
const DYING: Duration = Duration::from_secs(20);

/// The cgroups of the nodes of an instance, in every hierarchy there is.
fn roots(id: &str) -> Vec<PathBuf> {
    let mount = Path::new(MOUNT);
    let hierarchies = fs::read_dir(mount).into_iter().flatten().flatten().map(|entry| entry.path());
    let prefix = format!("trireme-{id}-n");
    std::iter::once(mount.to_owned())
        .chain(hierarchies)
        .flat_map(|hierarchy| folders(&hierarchy))
        .filter(|folder| {
            folder.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(&prefix))
        })
        .collect()
}

fn folders(of: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(of).into_iter().flatten().flatten();
    entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()).collect()
}

/// Every process in a cgroup and below it.
fn processes(folder: &Path, found: &mut BTreeSet<i32>) {
    let listed = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    // A process of another pid namespace that cannot be seen from here is listed as 0.
    found.extend(listed.lines().filter_map(|pid| pid.parse::<i32>().ok()).filter(|pid| *pid > 0));
    for below in folders(folder) {
        processes(&below, found);
    }
}

/// What was ended.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// How many processes.
    pub(crate) processes: usize,
    /// The network namespaces they were in, by inode.
    pub(crate) namespaces: BTreeSet<u64>,
}

/// Ends whatever still runs in the cgroups of an instance's nodes.
///
/// # Errors
/// Some cannot be ended.
pub(crate) fn kill(id: &str) -> anyhow::Result<Ended> {
    let roots = roots(id);
    let mut ended = Ended::default();
    let mut known = BTreeSet::new();
    let deadline = Instant::now() + DYING;
    loop {
        let mut running = BTreeSet::new();
        roots.iter().for_each(|root| processes(root, &mut running));
        running.retain(|pid| process::runs(*pid));
        if running.is_empty() {
            ended.processes = known.len();
            return Ok(ended);
        }
        if Instant::now() >= deadline {
            bail!("processes of containers do not end: {running:?}");
        }
        for pid in &running {
            if let Ok(namespace) = fs::metadata(format!("/proc/{pid}/ns/net")) {
                ended.namespaces.insert(namespace.ino());
            }
        }
        // Nothing may make new ones faster than they are ended.
        set(&roots, "freezer.state", "FROZEN");
        set(&roots, "cgroup.kill", "1");
        for pid in running {
            process::kill(pid)?;
            known.insert(pid);
        }
        set(&roots, "freezer.state", "THAWED");
        std::thread::sleep(POLL);
    }
}

/// Writes to a file of those cgroups that have it.
fn set(roots: &[PathBuf], file: &str, value: &str) {
    for file in roots.iter().map(|root| root.join(file)).filter(|file| file.exists()) {
        // Where it cannot be written the loop that calls this goes on without.
        let _refused = fs::write(file, value);
    }
}

/// Removes the cgroups, the deepest first.
pub(crate) fn remove(id: &str) {
    fn remove(folder: &Path) {
        folders(folder).iter().for_each(|below| remove(below));
        // Busy or gone: the kernel takes an empty one away with the next boot at the latest.
        let _busy = fs::remove_dir(folder);
    }
    roots(id).iter().for_each(|root| remove(root));
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    /// A hierarchy that a process can be put into: one of v1, else v2 itself.
    fn hierarchy() -> PathBuf {
        let freezer = Path::new(MOUNT).join("freezer");
        if freezer.is_dir() { freezer } else { MOUNT.into() }
    }

    fn in_cgroup(name: &str) -> Child {
        let folder = hierarchy().join(name);
        fs::create_dir_all(&folder).unwrap();
        let script = format!("echo $$ > {}/cgroup.procs; while :; do sleep 1000 & wait; done", folder.display());
        Command::new("sh").args(["-c", &script]).spawn().unwrap()
    }

    fn inside(name: &str) -> BTreeSet<i32> {
        let mut found = BTreeSet::new();
        processes(&hierarchy().join(name), &mut found);
        found
    }

    /// Needs root, as all that has to do with nodes does.
    #[test]
    fn what_runs_in_the_cgroups_of_an_instance_is_ended_and_nothing_else() {
        let id = format!("t{:x}", std::process::id());
        let (own, other) = (format!("trireme-{id}-n1/kubepods/pod1/c"), format!("trireme-x{id}-n1"));
        let (mut container, mut stranger) = (in_cgroup(&own), in_cgroup(&other));
        let deadline = Instant::now() + Duration::from_secs(20);
        while inside(&own).len() < 2 || inside(&other).len() < 2 {
            assert!(Instant::now() < deadline);
            std::thread::sleep(POLL);
        }
        let reaped = std::thread::spawn(move || container.wait());
        let ended = kill(&id).unwrap();
        assert!(ended.processes >= 2, "{ended:?}");
        assert_eq!(ended.namespaces, [fs::metadata("/proc/self/ns/net").unwrap().ino()].into());
        assert!(inside(&own).iter().all(|pid| !process::runs(*pid)));
        assert_eq!(stranger.try_wait().unwrap(), None, "another instance's goes on");
        reaped.join().unwrap().unwrap();
        while hierarchy().join(format!("trireme-{id}-n1")).exists() {
            assert!(Instant::now() < deadline);
            remove(&id);
            std::thread::sleep(POLL);
        }
        let reaped = std::thread::spawn(move || stranger.wait());
        kill(&format!("x{id}")).unwrap();
        reaped.join().unwrap().unwrap();
        while hierarchy().join(&other).exists() {
            assert!(Instant::now() < deadline);
            remove(&format!("x{id}"));
            std::thread::sleep(POLL);
        }
    }
}
