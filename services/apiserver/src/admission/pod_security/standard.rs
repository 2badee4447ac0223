//! A level in a version, and what it asks of a Pod.

use std::fmt;

use serde_json::Value;

use super::{baseline, restricted};

/// How much is forbidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Level {
    #[default]
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    pub(super) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "privileged" => Self::Privileged,
            "baseline" => Self::Baseline,
            "restricted" => Self::Restricted,
            _ => return None,
        })
    }
}

/// A level as it was in a minor version of Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Policy {
    pub(super) level: Level,
    /// `None` is the latest.
    pub(super) minor: Option<u32>,
}

/// What a check found: in a word, and in detail.
pub(super) struct Violation {
    pub(super) reason: &'static str,
    pub(super) detail: String,
}

impl Violation {
    pub(super) fn new(reason: &'static str, detail: String) -> Option<Self> {
        Some(Self { reason, detail })
    }
}

/// What a check looks at.
pub(super) struct Pod<'a> {
    pub(super) meta: &'a Value,
    pub(super) spec: &'a Value,
    minor: u32,
}

impl Pod<'_> {
    /// Whether the policy is of this version or newer.
    pub(super) fn since(&self, minor: u32) -> bool {
        self.minor >= minor
    }

    pub(super) fn is_windows(&self) -> bool {
        self.spec["os"]["name"] == "windows"
    }

    /// Root inside a user namespace is nobody outside.
    pub(super) fn has_own_users(&self) -> bool {
        self.spec["hostUsers"] == false
    }
}

type Check = fn(&Pod<'_>) -> Option<Violation>;

impl Policy {
    /// Reads `latest` or `v1.30`.
    pub(super) fn set_version(&mut self, text: &str) -> bool {
        if text == "latest" {
            self.minor = None;
            return true;
        }
        match text.strip_prefix("v1.").and_then(|minor| minor.parse().ok()) {
            Some(minor) => {
                self.minor = Some(minor);
                true
            }
            None => false,
        }
    }

    /// Everything that the policy forbids about the Pod, in one text.
    pub(super) fn check(&self, meta: &Value, spec: &Value) -> Result<(), String> {
        let pod = Pod { meta, spec, minor: self.minor.unwrap_or(u32::MAX) };
        let baseline: &[(bool, Check)] = &[
            (false, baseline::app_armor),
            (pod.since(22), baseline::capabilities),
            (false, baseline::host_namespaces),
            (true, baseline::host_path),
            (false, baseline::host_ports),
            (false, baseline::host_probes),
            (false, baseline::privileged),
            (true, baseline::proc_mount),
            (false, baseline::se_linux),
            (pod.since(19), baseline::seccomp),
            (false, baseline::sysctls),
            (false, baseline::windows_host_process),
        ];
        let restricted: &[Check] = &[
            restricted::privilege_escalation,
            restricted::capabilities,
            restricted::proc_mount,
            restricted::volumes,
            restricted::run_as_non_root,
            restricted::run_as_user,
            restricted::seccomp,
        ];
        let violations: Vec<Violation> = match self.level {
            Level::Privileged => Vec::new(),
            Level::Baseline => baseline.iter().filter_map(|(_, check)| check(&pod)).collect(),
            Level::Restricted => {
                // Some have a stricter form below.
                let kept = baseline.iter().filter(|(overridden, _)| !overridden).filter_map(|(_, check)| check(&pod));
                kept.chain(restricted.iter().filter_map(|check| check(&pod))).collect()
            }
        };
        if violations.is_empty() {
            return Ok(());
        }
        let texts: Vec<String> = violations
            .iter()
            .map(
                |Violation { reason, detail }| {
                    if detail.is_empty() { (*reason).to_owned() } else { format!("{reason} ({detail})") }
                },
            )
            .collect();
        Err(texts.join(", "))
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        };
        match self.minor {
            None => write!(f, "{level}:latest"),
            Some(minor) => write!(f, "{level}:v1.{minor}"),
        }
    }
}
