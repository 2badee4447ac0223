//! What nobody but the privileged may do.

use std::collections::BTreeSet;

use serde_json::Value;
use trireme_machinery::go;

use super::standard::{Pod, Violation};
use super::words::{bad_field, containers, named, plural, quoted, setters, text};
use crate::admission::pod::{self, items};

const APP_ARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

pub(super) fn app_armor(pod: &Pod<'_>) -> Option<Violation> {
    let allowed = |value: &Value| matches!(value.as_str(), Some("RuntimeDefault" | "Localhost"));
    let (on_pod, names, values) = bad_field(pod.spec, "/appArmorProfile/type", allowed, text);
    let mut values: Vec<String> = values.into_iter().collect();
    let mut who: Vec<String> = setters(on_pod, &names).into_iter().collect();
    let annotations = pod.meta["annotations"].as_object().into_iter().flatten();
    let bad: Vec<String> = annotations
        .filter(|(key, _)| key.starts_with(APP_ARMOR_ANNOTATION))
        .filter_map(|(key, value)| Some((key, value.as_str()?)))
        .filter(|(_, value)| !(value.is_empty() || *value == "runtime/default" || value.starts_with("localhost/")))
        .map(|(key, value)| format!("{key}={}", go::quote(value)))
        .collect();
    if !bad.is_empty() {
        who.push(plural(bad.len(), "annotation", "annotations").to_owned());
        values.extend(bad);
    }
    if who.is_empty() {
        return None;
    }
    let reason = plural(values.len(), "forbidden AppArmor profile", "forbidden AppArmor profiles");
    let detail = format!("{} must not set AppArmor profile type to {}", who.join(" and "), quoted(values));
    Violation::new(reason, detail)
}

const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

pub(super) fn capabilities(pod: &Pod<'_>) -> Option<Violation> {
    let mut bad = BTreeSet::new();
    let names = named(pod.spec, |container| {
        let added = items(&container["securityContext"]["capabilities"]["add"]).filter_map(Value::as_str);
        let forbidden: Vec<&str> = added.filter(|capability| !CAPABILITIES.contains(capability)).collect();
        bad.extend(forbidden.iter().copied());
        !forbidden.is_empty()
    });
    if names.is_empty() {
        return None;
    }
    let detail = format!("{} must not include {} in securityContext.capabilities.add", containers(&names), quoted(bad));
    Violation::new("non-default capabilities", detail)
}

pub(super) fn host_namespaces(pod: &Pod<'_>) -> Option<Violation> {
    let fields = ["hostNetwork", "hostPID", "hostIPC"];
    let set: Vec<String> = fields.iter().filter(|f| pod.spec[**f] == true).map(|f| format!("{f}=true")).collect();
    if set.is_empty() { None } else { Violation::new("host namespaces", set.join(", ")) }
}

pub(super) fn host_path(pod: &Pod<'_>) -> Option<Violation> {
    let volumes = items(&pod.spec["volumes"]).filter(|volume| volume["hostPath"].is_object());
    let names: Vec<&str> = volumes.map(|volume| pod::text(volume, "name")).collect();
    if names.is_empty() {
        return None;
    }
    Violation::new("hostPath volumes", format!("{} {}", plural(names.len(), "volume", "volumes"), quoted(&names)))
}

pub(super) fn host_ports(pod: &Pod<'_>) -> Option<Violation> {
    let mut ports = BTreeSet::new();
    let names = named(pod.spec, |container| {
        let used = items(&container["ports"]).filter_map(|port| port["hostPort"].as_i64()).filter(|port| *port != 0);
        let used: Vec<String> = used.map(|port| port.to_string()).collect();
        let any = !used.is_empty();
        ports.extend(used);
        any
    });
    if names.is_empty() {
        return None;
    }
    let (uses, what) = (plural(names.len(), "uses", "use"), plural(ports.len(), "hostPort", "hostPorts"));
    let ports: Vec<String> = ports.into_iter().collect();
    Violation::new("hostPort", format!("{} {uses} {what} {}", containers(&names), ports.join(", ")))
}

pub(super) fn host_probes(pod: &Pod<'_>) -> Option<Violation> {
    if !pod.since(34) {
        return None;
    }
    let mut hosts = BTreeSet::new();
    let mut names: Vec<&str> = named(pod.spec, |container| {
        let lifecycle = &container["lifecycle"];
        let handlers = [
            &container["livenessProbe"],
            &container["readinessProbe"],
            &container["startupProbe"],
            &lifecycle["postStart"],
            &lifecycle["preStop"],
        ];
        let set = handlers.iter().flat_map(|handler| [&handler["httpGet"]["host"], &handler["tcpSocket"]["host"]]);
        let set: Vec<&str> = set.filter_map(Value::as_str).filter(|host| !host.is_empty()).collect();
        hosts.extend(set.iter().copied());
        !set.is_empty()
    });
    if names.is_empty() {
        return None;
    }
    names.sort_unstable();
    names.dedup();
    let what = plural(hosts.len(), "probe or lifecycle host", "probe or lifecycle hosts");
    let detail = format!("{} {} {what} {}", containers(&names), plural(names.len(), "uses", "use"), quoted(hosts));
    Violation::new("probe or lifecycle host", detail)
}

pub(super) fn privileged(pod: &Pod<'_>) -> Option<Violation> {
    let names = named(pod.spec, |container| container["securityContext"]["privileged"] == true);
    if names.is_empty() {
        return None;
    }
    Violation::new("privileged", format!("{} must not set securityContext.privileged=true", containers(&names)))
}

pub(super) fn proc_mount(pod: &Pod<'_>) -> Option<Violation> {
    if pod.since(35) && pod.has_own_users() { None } else { any_proc_mount(pod) }
}

pub(super) fn any_proc_mount(pod: &Pod<'_>) -> Option<Violation> {
    let mut types = BTreeSet::new();
    let names = named(pod.spec, |container| match container["securityContext"]["procMount"].as_str() {
        None | Some("Default") => false,
        Some(other) => {
            types.insert(other);
            true
        }
    });
    if names.is_empty() {
        return None;
    }
    Violation::new(
        "procMount",
        format!("{} must not set securityContext.procMount to {}", containers(&names), quoted(types)),
    )
}

pub(super) fn se_linux(pod: &Pod<'_>) -> Option<Violation> {
    let (mut types, mut user, mut role) = (BTreeSet::new(), false, false);
    let mut bad = |holder: &Value| {
        let options = &holder["securityContext"]["seLinuxOptions"];
        if !options.is_object() {
            return false;
        }
        let ty = pod::text(options, "type");
        let engine = pod.since(31) && ty == "container_engine_t";
        let allowed = engine || matches!(ty, "" | "container_t" | "container_init_t" | "container_kvm_t");
        if !allowed {
            types.insert(ty.to_owned());
        }
        let (has_user, has_role) = (!pod::text(options, "user").is_empty(), !pod::text(options, "role").is_empty());
        user |= has_user;
        role |= has_role;
        !allowed || has_user || has_role
    };
    let on_pod = bad(pod.spec);
    let names = named(pod.spec, &mut bad);
    let who = setters(on_pod, &names)?;
    let mut what = Vec::new();
    if !types.is_empty() {
        what.push(format!("{} {}", plural(types.len(), "type", "types"), quoted(types)));
    }
    if user {
        what.push("user may not be set".to_owned());
    }
    if role {
        what.push("role may not be set".to_owned());
    }
    Violation::new("seLinuxOptions", format!("{who} set forbidden securityContext.seLinuxOptions: {}", what.join("; ")))
}

/// Whether a seccomp profile confines.
pub(super) fn confines(value: &Value) -> bool {
    matches!(value.as_str(), Some("RuntimeDefault" | "Localhost"))
}

pub(super) fn seccomp(pod: &Pod<'_>) -> Option<Violation> {
    if !pod.since(19) {
        return seccomp_annotations(pod);
    }
    let (on_pod, names, values) = bad_field(pod.spec, "/seccompProfile/type", confines, text);
    let who = setters(on_pod, &names)?;
    Violation::new(
        "seccompProfile",
        format!("{who} must not set securityContext.seccompProfile.type to {}", quoted(values)),
    )
}

fn seccomp_annotations(pod: &Pod<'_>) -> Option<Violation> {
    let own = |key: &str| key.strip_prefix("container.seccomp.security.alpha.kubernetes.io/").map(str::to_owned);
    let names = named(pod.spec, |_| true);
    let annotations = pod.meta["annotations"].as_object().into_iter().flatten();
    let bad: BTreeSet<String> = annotations
        .filter(|(key, _)| {
            key.as_str() == "seccomp.security.alpha.kubernetes.io/pod"
                || own(key).is_some_and(|n| names.contains(&n.as_str()))
        })
        .filter_map(|(key, value)| Some((key, value.as_str()?)))
        .filter(|(_, value)| {
            !(matches!(*value, "runtime/default" | "docker/default") || value.starts_with("localhost/"))
        })
        .map(|(key, value)| format!("{key}={}", go::quote(value)))
        .collect();
    if bad.is_empty() {
        return None;
    }
    let what = plural(bad.len(), "annotation", "annotations");
    let bad: Vec<String> = bad.into_iter().collect();
    Violation::new("seccompProfile", format!("forbidden {what} {}", bad.join(", ")))
}

/// Sysctls that stay inside a Pod, with the version that allowed them.
const SYSCTLS: [(&str, u32); 14] = [
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
    ("net.ipv4.tcp_slow_start_after_idle", 37),
    ("net.ipv4.tcp_notsent_lowat", 37),
];

pub(super) fn sysctls(pod: &Pod<'_>) -> Option<Violation> {
    let allowed = |name: &str| SYSCTLS.iter().any(|(known, since)| *known == name && pod.since(*since));
    let names = items(&pod.spec["securityContext"]["sysctls"]).map(|sysctl| pod::text(sysctl, "name"));
    let bad: Vec<&str> = names.filter(|name| !allowed(name)).collect();
    if bad.is_empty() { None } else { Violation::new("forbidden sysctls", bad.join(", ")) }
}

pub(super) fn windows_host_process(pod: &Pod<'_>) -> Option<Violation> {
    let set = |holder: &Value| holder["securityContext"]["windowsOptions"]["hostProcess"] == true;
    let who = setters(set(pod.spec), &named(pod.spec, set))?;
    Violation::new("hostProcess", format!("{who} must not set securityContext.windowsOptions.hostProcess=true"))
}
