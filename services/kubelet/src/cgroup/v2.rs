//! cgroup v2: one tree.

use super::{Hierarchy, files};
use crate::error::Result;
use crate::pod::resources::{CPU_PERIOD, PodLimits};
use std::path::{Path, PathBuf};

/// The unified hierarchy.
pub(super) struct Unified;

fn full(path: &Path) -> PathBuf {
    Path::new(files::MOUNT).join(path.strip_prefix("/").unwrap_or(path))
}

/// v1's shares as v2's weight, as the OCI runtimes count.
fn weight(shares: i64) -> i64 {
    1 + (shares.clamp(2, 262_144) - 2) * 9_999 / 262_142
}

/// What a cgroup's children may use must be said in the cgroup itself; the kernel lacks some of it at times.
fn delegate(dir: &Path) {
    for controller in ["cpu", "cpuset", "memory", "pids", "io", "hugetlb"] {
        if let Err(error) = std::fs::write(dir.join("cgroup.subtree_control"), format!("+{controller}")) {
            tracing::debug!(controller, path = %dir.display(), %error, "a cgroup controller is not delegated");
        }
    }
}

impl Hierarchy for Unified {
    fn make(&self, path: &Path, limits: &PodLimits) -> Result<()> {
        let mut dir = PathBuf::from(files::MOUNT);
        for part in path.strip_prefix("/").unwrap_or(path).components() {
            let below = dir.join(part);
            if !below.exists() {
                delegate(&dir);
                files::make_dir(&below)?;
            }
            dir = below;
        }
        delegate(&dir);
        files::set(&dir.join("cpu.weight"), &weight(limits.shares).to_string())?;
        if let Some(quota) = limits.quota {
            files::set(&dir.join("cpu.max"), &format!("{quota} {CPU_PERIOD}"))?;
        }
        if let Some(bytes) = limits.memory {
            files::set(&dir.join("memory.max"), &bytes.to_string())?;
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        files::remove(&full(path))
    }

    fn children(&self, path: &Path) -> Vec<String> {
        files::child_names(&full(path))
    }
}

#[cfg(test)]
mod tests {
    use super::weight;

    #[test]
    fn weights() {
        for (shares, expected) in [(2, 1), (1024, 39), (262_144, 10_000)] {
            assert_eq!(weight(shares), expected);
        }
    }
}
