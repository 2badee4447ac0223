//! The cgroups of Pods: `<root>/kubepods/<class>/pod<uid>`, on cgroup v1 and v2.
//!
//! The kubelet makes the cgroup of each Pod with the Pod's limits, and the runtime makes those of containers below it.
//! With the systemd driver the runtime makes the slices too.

mod files;
mod v1;
mod v2;

use crate::error::{Error, Result};
use crate::host::Allocatable;
use crate::pod::qos::{self, Class};
use crate::pod::resources::{self, PodLimits};
use crate::pod::view;
use k8s_openapi::api::core::v1::Pod;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Who makes cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// Files in /sys/fs/cgroup.
    Cgroupfs,
    /// Units of systemd.
    Systemd,
}

/// A hierarchy: one folder tree (v2), or one for each controller (v1).
trait Hierarchy: Send + Sync {
    fn make(&self, path: &Path, limits: &PodLimits) -> Result<()>;
    fn remove(&self, path: &Path) -> Result<()>;
    fn children(&self, path: &Path) -> Vec<String>;
}

/// The cgroups of a node's Pods.
pub struct Cgroups {
    root: PathBuf,
    driver: Driver,
    hierarchy: Box<dyn Hierarchy>,
}

impl Cgroups {
    /// Looks what there is, and makes the upper levels. `root` is `--cgroup-root`.
    pub fn new(root: &str, driver: Driver, allocatable: Allocatable) -> Result<Self> {
        let unified = files::is_unified();
        let hierarchy: Box<dyn Hierarchy> = if unified { Box::new(v2::Unified) } else { Box::new(v1::Split::find()?) };
        let root = Path::new("/").join(root.trim_matches('/'));
        let cgroups = Self { root, driver, hierarchy };
        if driver == Driver::Cgroupfs {
            let all = PodLimits {
                shares: resources::shares(allocatable.milli_cpu),
                quota: None,
                memory: Some(allocatable.memory).filter(|bytes| *bytes > 0),
            };
            let lowest = PodLimits { shares: 2, ..PodLimits::default() };
            cgroups.hierarchy.make(&cgroups.pods(), &all)?;
            cgroups.hierarchy.make(&cgroups.class(Class::Burstable), &lowest)?;
            cgroups.hierarchy.make(&cgroups.class(Class::BestEffort), &lowest)?;
        }
        Ok(cgroups)
    }

    fn pods(&self) -> PathBuf {
        self.root.join("kubepods")
    }

    fn class(&self, class: Class) -> PathBuf {
        match class {
            Class::Guaranteed => self.pods(),
            Class::Burstable => self.pods().join("burstable"),
            Class::BestEffort => self.pods().join("besteffort"),
        }
    }

    fn path(&self, class: Class, uid: &str) -> PathBuf {
        self.class(class).join(format!("pod{uid}"))
    }

    /// What the runtime is told.
    pub fn parent_of(&self, pod: &Pod) -> String {
        let class = qos::class(pod);
        let uid = view::uid(pod);
        match self.driver {
            Driver::Cgroupfs => self.path(class, uid).to_string_lossy().into_owned(),
            Driver::Systemd => {
                let mut parts: Vec<String> = self
                    .class(class)
                    .components()
                    .filter_map(|part| match part {
                        std::path::Component::Normal(part) => Some(part.to_string_lossy().replace('-', "_")),
                        _ => None,
                    })
                    .collect();
                parts.push(format!("pod{}", uid.replace('-', "_")));
                format!("{}.slice", parts.join("-"))
            }
        }
    }

    /// Makes the cgroup of a Pod, or sets its limits anew.
    pub fn make(&self, pod: &Pod) -> Result<()> {
        if self.driver == Driver::Systemd {
            return Ok(());
        }
        self.hierarchy.make(&self.path(qos::class(pod), view::uid(pod)), &resources::pod_limits(pod))
    }

    /// Removes the cgroup of a Pod that was stopped.
    pub fn remove(&self, pod: &Pod) -> Result<()> {
        if self.driver == Driver::Systemd {
            return Ok(());
        }
        self.hierarchy.remove(&self.path(qos::class(pod), view::uid(pod)))
    }

    /// Gives the burstable Pods together the weight of all their requests.
    pub fn weigh_burstable(&self, milli_cpu: i64) -> Result<()> {
        if self.driver == Driver::Systemd {
            return Ok(());
        }
        let limits = PodLimits { shares: resources::shares(milli_cpu), ..PodLimits::default() };
        self.hierarchy.make(&self.class(Class::Burstable), &limits)
    }

    /// Cgroups of Pods that nobody knows, by the uid of the Pod; for [`Cgroups::remove_at`].
    pub fn orphans(&self, is_known: impl Fn(&str) -> bool) -> BTreeMap<String, Vec<PathBuf>> {
        let mut orphans: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        if self.driver == Driver::Systemd {
            return orphans;
        }
        for class in [Class::Guaranteed, Class::Burstable, Class::BestEffort] {
            let dir = self.class(class);
            for child in self.hierarchy.children(&dir) {
                if let Some(uid) = child.strip_prefix("pod").filter(|uid| !is_known(uid)) {
                    orphans.entry(uid.to_owned()).or_default().push(dir.join(&child));
                }
            }
        }
        orphans
    }

    /// Removes a cgroup that was found so.
    pub fn remove_at(&self, path: &Path) -> Result<()> {
        self.hierarchy.remove(path)
    }
}

/// The driver by its name.
pub fn driver(name: &str) -> Result<Driver> {
    match name {
        "cgroupfs" => Ok(Driver::Cgroupfs),
        "systemd" => Ok(Driver::Systemd),
        other => Err(Error::Config(format!("--cgroup-driver={other}: must be \"cgroupfs\" or \"systemd\""))),
    }
}

impl std::fmt::Debug for Cgroups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cgroups").field("root", &self.root).field("driver", &self.driver).finish_non_exhaustive()
    }
}
