//! cgroup v1: a tree for each controller.

use super::{Hierarchy, files};
use crate::error::{Error, Result};
use crate::pod::resources::{CPU_PERIOD, PodLimits};
use std::path::{Path, PathBuf};

/// The mounts of the controllers.
pub(super) struct Split {
    mounts: Vec<Mount>,
}

struct Mount {
    at: PathBuf,
    controllers: Vec<String>,
}

const KNOWN: [&str; 12] = [
    "cpu",
    "cpuacct",
    "cpuset",
    "memory",
    "pids",
    "blkio",
    "devices",
    "freezer",
    "hugetlb",
    "net_cls",
    "net_prio",
    "perf_event",
];

impl Split {
    pub(super) fn find() -> Result<Self> {
        let file = Path::new("/proc/self/mounts");
        let text = std::fs::read_to_string(file).map_err(|error| Error::io("read", file, error))?;
        let mounts: Vec<Mount> = text
            .lines()
            .filter_map(|line| {
                let mut words = line.split(' ').skip(1);
                let (at, kind, options) = (words.next()?, words.next()?, words.next()?);
                let controllers: Vec<String> =
                    options.split(',').filter(|option| KNOWN.contains(option)).map(str::to_owned).collect();
                (kind == "cgroup" && at.starts_with(files::MOUNT) && !controllers.is_empty())
                    .then(|| Mount { at: PathBuf::from(at), controllers })
            })
            .collect();
        for needed in ["cpu", "memory"] {
            if !mounts.iter().any(|mount| mount.controllers.iter().any(|controller| controller == needed)) {
                return Err(Error::Config(format!(
                    "no cgroup controller \"{needed}\" is mounted below {}: mount it, or use cgroup v2",
                    files::MOUNT
                )));
            }
        }
        Ok(Self { mounts })
    }
}

impl Mount {
    fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|known| known == controller)
    }

    fn path(&self, path: &Path) -> PathBuf {
        self.at.join(path.strip_prefix("/").unwrap_or(path))
    }
}

/// A new cpuset is empty, and nothing can run in it: each level gets what the one above has.
fn fill_cpuset(mount: &Path, path: &Path) -> Result<()> {
    let mut above = mount.to_owned();
    for part in path.strip_prefix(mount).unwrap_or(path).components() {
        let here = above.join(part);
        for name in ["cpuset.cpus", "cpuset.mems"] {
            if files::read(&here.join(name)).is_empty() {
                files::set(&here.join(name), &files::read(&above.join(name)))?;
            }
        }
        above = here;
    }
    Ok(())
}

impl Hierarchy for Split {
    fn make(&self, path: &Path, limits: &PodLimits) -> Result<()> {
        for mount in &self.mounts {
            let dir = mount.path(path);
            files::make_dir(&dir)?;
            if mount.has("cpuset") {
                fill_cpuset(&mount.at, &dir)?;
            }
            if mount.has("cpu") {
                files::set(&dir.join("cpu.shares"), &limits.shares.to_string())?;
                if let Some(quota) = limits.quota {
                    files::set(&dir.join("cpu.cfs_period_us"), &CPU_PERIOD.to_string())?;
                    files::set(&dir.join("cpu.cfs_quota_us"), &quota.to_string())?;
                }
            }
            if mount.has("memory")
                && let Some(bytes) = limits.memory
            {
                files::set(&dir.join("memory.limit_in_bytes"), &bytes.to_string())?;
            }
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let removed: Vec<Result<()>> = self.mounts.iter().map(|mount| files::remove(&mount.path(path))).collect();
        removed.into_iter().collect()
    }

    fn children(&self, path: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            self.mounts.iter().flat_map(|mount| files::child_names(&mount.path(path))).collect();
        names.sort();
        names.dedup();
        names
    }
}
