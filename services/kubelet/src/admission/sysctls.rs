//! Which sysctls a Pod may set: those that are known to touch nothing but the Pod, and those that the node's
//! administrator lets through. Many others are the whole node's, and a runtime sets what it is told.

use crate::error::{Error, Result};
use crate::pod::view::spec;
use k8s_openapi::api::core::v1::Pod;
use std::collections::BTreeMap;

/// Upstream's safe sysctls, and the kernel from which on each is a namespace's own.
const SAFE: [(&str, (u32, u32)); 14] = [
    ("kernel.shm_rmid_forced", (0, 0)),
    ("net.ipv4.ip_local_port_range", (0, 0)),
    ("net.ipv4.tcp_syncookies", (0, 0)),
    ("net.ipv4.ping_group_range", (0, 0)),
    ("net.ipv4.ip_unprivileged_port_start", (0, 0)),
    ("net.ipv4.ip_local_reserved_ports", (3, 16)),
    ("net.ipv4.tcp_keepalive_time", (4, 5)),
    ("net.ipv4.tcp_fin_timeout", (4, 6)),
    ("net.ipv4.tcp_keepalive_intvl", (4, 5)),
    ("net.ipv4.tcp_keepalive_probes", (4, 5)),
    ("net.ipv4.tcp_rmem", (4, 15)),
    ("net.ipv4.tcp_wmem", (4, 15)),
    ("net.ipv4.tcp_slow_start_after_idle", (4, 15)),
    ("net.ipv4.tcp_notsent_lowat", (4, 6)),
];
/// Sysctls of a namespace that have no prefix of their own.
const NAMESPACED: [(&str, &str); 10] = [
    ("kernel.domainname", "UTS"),
    ("kernel.sem", "IPC"),
    ("kernel.shmall", "IPC"),
    ("kernel.shmmax", "IPC"),
    ("kernel.shmmni", "IPC"),
    ("kernel.shm_rmid_forced", "IPC"),
    ("kernel.shm", "IPC"),
    ("kernel.msgmax", "IPC"),
    ("kernel.msgmnb", "IPC"),
    ("kernel.msgmni", "IPC"),
];
const LONGEST: usize = 253;

/// What is let through, by name or by how a name begins, and the namespace that each belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowlist {
    names: BTreeMap<String, &'static str>,
    prefixes: BTreeMap<String, &'static str>,
}

impl Allowlist {
    /// The safe ones of this kernel (as `/proc/sys/kernel/osrelease` names it), and these: names, or beginnings with a `*`.
    pub fn new(kernel: &str, unsafe_too: &[String]) -> Result<Self> {
        let mut list = Self::default();
        let kernel = version(kernel);
        let safe = SAFE.iter().filter(|(_, since)| kernel >= *since).map(|(name, _)| *name);
        for pattern in safe.chain(unsafe_too.iter().map(String::as_str)) {
            list.allow(pattern)?;
        }
        Ok(list)
    }

    fn allow(&mut self, pattern: &str) -> Result<()> {
        if !is_pattern(pattern) {
            return Err(Error::Config(format!(
                "allowedUnsafeSysctls: sysctl \"{pattern}\" must have at most {LONGEST} characters and be names of lower \
                 case letters, digits, - and _ between dots, with a * only at its end"
            )));
        }
        let normal = normalized(pattern);
        let (name, is_prefix) = normal.split_once('*').map_or((normal.as_str(), false), |(prefix, _)| (prefix, true));
        let namespace = namespace(name).ok_or_else(|| {
            Error::Config(format!("allowedUnsafeSysctls: the sysctls \"{name}\" are not known to be namespaced"))
        })?;
        let kind = if is_prefix { &mut self.prefixes } else { &mut self.names };
        kind.insert(name.to_owned(), namespace);
        Ok(())
    }

    /// Why a Pod may not run with its sysctls.
    pub fn complaint(&self, pod: &Pod) -> Option<String> {
        let spec = spec(pod);
        let shares = |namespace: &str| match namespace {
            "IPC" => spec.host_ipc == Some(true),
            "Net" => spec.host_network == Some(true),
            "User" => spec.host_users != Some(false),
            _ => false,
        };
        let asked = spec.security_context.iter().flat_map(|context| context.sysctls.iter().flatten());
        asked.map(|sysctl| normalized(&sysctl.name)).find_map(|name| {
            let by_prefix = || self.prefixes.iter().find(|(prefix, _)| name.starts_with(prefix.as_str()));
            match self.names.get(&name).or_else(|| by_prefix().map(|(_, namespace)| namespace)) {
                None => Some(format!("forbidden sysctl: \"{name}\" not allowlisted")),
                Some(namespace) if shares(namespace) => {
                    Some(format!("forbidden sysctl: \"{name}\" not allowed with host {namespace} enabled"))
                }
                Some(_) => None,
            }
        })
    }
}

/// A name with dots between its parts, also if it was written with slashes (and dots within the parts).
pub fn normalized(name: &str) -> String {
    match name.find(['.', '/']) {
        Some(at) if name.as_bytes()[at] == b'/' => name
            .chars()
            .map(|c| match c {
                '/' => '.',
                '.' => '/',
                other => other,
            })
            .collect(),
        _ => name.to_owned(),
    }
}

fn namespace(name: &str) -> Option<&'static str> {
    let prefixed = || {
        [("net.", "Net"), ("fs.mqueue.", "IPC"), ("user.", "User")]
            .into_iter()
            .find(|(prefix, _)| name.starts_with(prefix))
    };
    NAMESPACED.into_iter().find(|(known, _)| *known == name).or_else(prefixed).map(|(_, namespace)| namespace)
}

fn is_pattern(pattern: &str) -> bool {
    let name = pattern.strip_suffix('*').unwrap_or(pattern);
    let is_part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_'))
    };
    let mut parts: Vec<&str> = name.split(['.', '/']).collect();
    if name.len() != pattern.len() && parts.last() == Some(&"") {
        parts.pop();
    }
    pattern.len() <= LONGEST && parts.into_iter().all(is_part)
}

/// The first two numbers of a kernel's release.
fn version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|digits| digits.parse().unwrap_or_default());
    (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(list: &Allowlist, spec: serde_json::Value, name: &str) -> Option<String> {
        let mut spec = spec;
        spec["containers"] = serde_json::json!([]);
        spec["securityContext"] = serde_json::json!({"sysctls": [{"name": name, "value": "1"}]});
        list.complaint(&serde_json::from_value(serde_json::json!({"spec": spec})).unwrap())
    }

    // Expected: upstream's pkg/kubelet/sysctl/allowlist_test.go and its messages.
    #[test]
    fn safe_ones_and_those_that_are_let_through() {
        let allowed = ["kernel.msg*", "net.*"].map(str::to_owned);
        assert!(Allowlist::new("6.1.0", &["kernel.sem".to_owned()]).is_ok());
        let list = Allowlist::new("6.1.0-18-amd64", &allowed[1..]).unwrap();
        let plain = || serde_json::json!({});
        for good in ["kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net/ipv4/tcp_rmem", "net.a.b"] {
            assert_eq!(complaint(&list, plain(), good), None, "{good}");
        }
        let only_safe = Allowlist::new("6.1.0", &[]).unwrap();
        assert_eq!(
            complaint(&only_safe, plain(), "kernel.core_pattern").unwrap(),
            "forbidden sysctl: \"kernel.core_pattern\" not allowlisted"
        );
        assert!(complaint(&only_safe, plain(), "net.ipv4.ip_forward").is_some());
        assert_eq!(
            complaint(&only_safe, serde_json::json!({"hostNetwork": true}), "net.ipv4.tcp_syncookies").unwrap(),
            "forbidden sysctl: \"net.ipv4.tcp_syncookies\" not allowed with host Net enabled"
        );
        assert!(complaint(&only_safe, serde_json::json!({"hostIPC": true}), "kernel.shm_rmid_forced").is_some());
        let old = Allowlist::new("4.4.0", &[]).unwrap();
        assert!(complaint(&old, plain(), "net.ipv4.tcp_rmem").is_some(), "the whole node's, with that kernel");
    }

    #[test]
    fn what_is_not_a_namespaces_own_is_never_let_through() {
        for bad in ["kernel.core_pattern", "vm.*", "kernel.*", "*", "net.*.x", "Net.a", ""] {
            assert!(Allowlist::new("6.1.0", &[bad.to_owned()]).is_err(), "{bad}");
        }
    }
}
