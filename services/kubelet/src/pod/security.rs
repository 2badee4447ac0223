//! Who a container runs as, and what it may do.

use super::view::{self, spec};
use crate::admission::apparmor;
use crate::error::{Error, Result};
use k8s_openapi::api::core::v1::{Container, Pod, SeccompProfile};
use std::path::Path;
use trireme_proto::runtime::v1 as pb;

/// The user that an image names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageUser {
    /// Numeric.
    pub uid: Option<i64>,
    /// By name, when it is not numeric.
    pub name: String,
}

impl ImageUser {
    /// An image that says nothing runs as root.
    pub fn of(image: Option<&pb::Image>) -> Self {
        match image {
            Some(pb::Image { uid: Some(uid), .. }) => Self { uid: Some(uid.value), name: String::new() },
            Some(image) if !image.username.is_empty() => Self { uid: None, name: image.username.clone() },
            _ => Self { uid: Some(0), name: String::new() },
        }
    }
}

/// The namespaces of a Pod's processes. User namespaces are not made here: a Pod that asks for one must not run without,
/// since the API server lets in, for its sake, what is root on the node otherwise.
pub fn namespaces(pod: &Pod) -> Result<pb::NamespaceOption> {
    let spec = spec(pod);
    if spec.host_users == Some(false) {
        return Err(Error::Pod(match spec.runtime_class_name.as_deref().unwrap_or_default() {
            "" => "can't set `spec.hostUsers: false`, runtime does not support user namespaces".to_owned(),
            handler => format!(
                "can't set `spec.hostUsers: false`, RuntimeClass handler \"{handler}\" does not support user namespaces"
            ),
        }));
    }
    let node_or = |host: Option<bool>, other| if host == Some(true) { pb::NamespaceMode::Node } else { other };
    let pid = match spec.share_process_namespace {
        Some(true) if spec.host_pid != Some(true) => pb::NamespaceMode::Pod,
        _ => node_or(spec.host_pid, pb::NamespaceMode::Container),
    };
    Ok(pb::NamespaceOption {
        network: node_or(spec.host_network, pb::NamespaceMode::Pod).into(),
        ipc: node_or(spec.host_ipc, pb::NamespaceMode::Pod).into(),
        pid: pid.into(),
        ..Default::default()
    })
}

/// Extra groups of all processes of a Pod.
pub fn groups(pod: &Pod) -> Vec<i64> {
    let Some(context) = &spec(pod).security_context else { return Vec::new() };
    context.fs_group.iter().chain(context.supplemental_groups.iter().flatten()).copied().collect()
}

/// Merge or Strict: do groups that the image's /etc/group gives count too?
pub fn groups_policy(pod: &Pod) -> pb::SupplementalGroupsPolicy {
    let context = spec(pod).security_context.as_ref();
    match context.and_then(|context| context.supplemental_groups_policy.as_deref()) {
        Some("Strict") => pb::SupplementalGroupsPolicy::Strict,
        _ => pb::SupplementalGroupsPolicy::Merge,
    }
}

/// Is any container of the Pod privileged?
pub fn has_privileged(pod: &Pod) -> bool {
    let is = |container: &Container| container.security_context.as_ref().and_then(|c| c.privileged) == Some(true);
    spec(pod).containers.iter().chain(view::init_containers(pod)).any(is)
}

fn seccomp(profile: Option<&SeccompProfile>, root: &Path) -> pb::SecurityProfile {
    use pb::security_profile::ProfileType;
    let (kind, localhost_ref) = match profile.map(|profile| profile.type_.as_str()) {
        Some("RuntimeDefault") => (ProfileType::RuntimeDefault, String::new()),
        Some("Localhost") => {
            let file = profile.and_then(|profile| profile.localhost_profile.clone()).unwrap_or_default();
            (ProfileType::Localhost, root.join("seccomp").join(file).to_string_lossy().into_owned())
        }
        _ => (ProfileType::Unconfined, String::new()),
    };
    pb::SecurityProfile { profile_type: kind.into(), localhost_ref }
}

/// The AppArmor profile of a container, and as older runtimes take it.
fn apparmor(pod: &Pod, container: &Container) -> Result<(Option<pb::SecurityProfile>, String)> {
    use pb::security_profile::ProfileType;
    let Some(profile) = apparmor::profile(pod, container) else { return Ok((None, String::new())) };
    let (kind, localhost_ref, older) = match (profile.type_.as_str(), profile.localhost_profile) {
        ("RuntimeDefault", _) => (ProfileType::RuntimeDefault, String::new(), "runtime/default".to_owned()),
        ("Unconfined", _) => (ProfileType::Unconfined, String::new(), "unconfined".to_owned()),
        ("Localhost", Some(name)) => (ProfileType::Localhost, name.clone(), format!("localhost/{name}")),
        ("Localhost", None) => return Err(Error::Pod("missing localhost apparmor profile name".into())),
        (other, _) => return Err(Error::Pod(format!("unknown apparmor profile type: \"{other}\""))),
    };
    Ok((Some(pb::SecurityProfile { profile_type: kind.into(), localhost_ref }), older))
}

/// Makes mounts read-only with all that is mounted below them, where the container asks for it. `mounts` begins with
/// those of the container's volumeMounts, in their order.
pub fn read_only_below(container: &Container, mounts: &mut [pb::Mount], is_supported: bool) -> Result<()> {
    for (asked, mount) in container.volume_mounts.iter().flatten().zip(mounts) {
        let mode = match asked.recursive_read_only.as_deref() {
            None | Some("" | "Disabled") => continue,
            Some(mode) => mode,
        };
        let wrong = |why: String| {
            let of = format!("volume \"{}\" requested recursive read-only mode", asked.name);
            Err(Error::Pod(format!("failed to resolve recursive read-only mode: {of}, but it is {why}")))
        };
        if asked.read_only != Some(true) {
            return wrong("not read-only".into());
        }
        if let Some(propagation) = asked.mount_propagation.as_deref().filter(|mode| *mode != "None") {
            return wrong(format!("not compatible with propagation \"{propagation}\""));
        }
        mount.recursive_read_only = match (mode, is_supported) {
            ("IfPossible", _) => is_supported,
            ("Enabled", true) => true,
            ("Enabled", false) => return wrong("not supported by the runtime".into()),
            (other, _) => {
                let why = format!("unknown recursive read-only mode \"{other}\"");
                return Err(Error::Pod(format!("failed to resolve recursive read-only mode: {why}")));
            }
        };
    }
    Ok(())
}

/// The security context of a container: its own settings over the Pod's over the image's.
pub fn context(
    pod: &Pod,
    container: &Container,
    user: &ImageUser,
    root_dir: &Path,
) -> Result<pb::LinuxContainerSecurityContext> {
    let of_pod = spec(pod).security_context.clone().unwrap_or_default();
    let own = container.security_context.clone().unwrap_or_default();
    let run_as_user = own.run_as_user.or(of_pod.run_as_user);
    refuse_root(pod, container, own.run_as_non_root.or(of_pod.run_as_non_root), run_as_user, user)?;
    let privileged = own.privileged.unwrap_or_default();
    let profile = own.seccomp_profile.as_ref().or(of_pod.seccomp_profile.as_ref());
    let unmasked = own.proc_mount.as_deref() == Some("Unmasked");
    let owned = |paths: &[&str]| if unmasked { Vec::new() } else { paths.iter().map(|p| (*p).to_owned()).collect() };
    let selinux = own.se_linux_options.or(of_pod.se_linux_options);
    let capabilities = own.capabilities.unwrap_or_default();
    let (apparmor, older) = apparmor(pod, container)?;
    #[allow(deprecated, reason = "runtimes before CRI 1.23 know no other field")]
    Ok(pb::LinuxContainerSecurityContext {
        capabilities: Some(pb::Capability {
            add_capabilities: capabilities.add.unwrap_or_default(),
            drop_capabilities: capabilities.drop.unwrap_or_default(),
            ..Default::default()
        }),
        privileged,
        namespace_options: Some(namespaces(pod)?),
        selinux_options: selinux.map(|options| pb::SeLinuxOption {
            user: options.user.unwrap_or_default(),
            role: options.role.unwrap_or_default(),
            r#type: options.type_.unwrap_or_default(),
            level: options.level.unwrap_or_default(),
        }),
        run_as_user: run_as_user.or(user.uid).map(|value| pb::Int64Value { value }),
        run_as_username: if run_as_user.is_none() { user.name.clone() } else { String::new() },
        run_as_group: own.run_as_group.or(of_pod.run_as_group).map(|value| pb::Int64Value { value }),
        readonly_rootfs: own.read_only_root_filesystem.unwrap_or_default(),
        supplemental_groups: groups(pod),
        supplemental_groups_policy: groups_policy(pod).into(),
        no_new_privs: own.allow_privilege_escalation == Some(false),
        masked_paths: owned(&MASKED),
        readonly_paths: owned(&READ_ONLY),
        seccomp: Some(seccomp(if privileged { None } else { profile }, root_dir)),
        apparmor,
        apparmor_profile: older,
        ..Default::default()
    })
}

/// What of /proc and /sys an ordinary container does not see.
const MASKED: [&str; 13] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
    "/sys/devices/system/cpu/cpu0/thermal_throttle",
];
/// What of /proc it may only read.
const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

fn refuse_root(
    pod: &Pod,
    container: &Container,
    non_root: Option<bool>,
    run_as_user: Option<i64>,
    user: &ImageUser,
) -> Result<()> {
    if non_root != Some(true) {
        return Ok(());
    }
    let place = format!("(pod: \"{}\", container: {})", view::formatted(pod), container.name);
    match (run_as_user, user.uid) {
        (Some(0), _) => Err(Error::Pod(format!("container's runAsUser breaks non-root policy {place}"))),
        (Some(_), _) => Ok(()),
        (None, Some(0)) => Err(Error::Pod(format!("container has runAsNonRoot and image will run as root {place}"))),
        (None, Some(_)) => Ok(()),
        (None, None) => Err(Error::Pod(format!(
            "container has runAsNonRoot and image has non-numeric user ({}), cannot verify user is non-root {place}",
            user.name
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(pod: serde_json::Value, container: serde_json::Value) -> Pod {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u"},
            "spec": {"securityContext": pod, "containers": [{"name": "c", "securityContext": container}]},
        }))
        .unwrap()
    }

    fn of(pod: &Pod, user: &ImageUser) -> Result<pb::LinuxContainerSecurityContext> {
        context(pod, &pod.spec.as_ref().unwrap().containers[0], user, Path::new("/var/lib/kubelet"))
    }

    #[test]
    fn the_container_wins_over_the_pod_over_the_image() {
        let image = ImageUser { uid: Some(7), name: String::new() };
        let both = pod(serde_json::json!({"runAsUser": 5, "fsGroup": 9}), serde_json::json!({"runAsUser": 6}));
        let context = of(&both, &image).unwrap();
        assert_eq!(context.run_as_user.unwrap().value, 6);
        assert_eq!(context.supplemental_groups, [9]);
        let none = pod(serde_json::json!({}), serde_json::json!({}));
        assert_eq!(of(&none, &image).unwrap().run_as_user.unwrap().value, 7);
    }

    #[test]
    fn root_is_refused_where_it_must_be() {
        let strict = pod(serde_json::json!({"runAsNonRoot": true}), serde_json::json!({}));
        let error = of(&strict, &ImageUser { uid: Some(0), name: String::new() }).unwrap_err().to_string();
        assert_eq!(error, "container has runAsNonRoot and image will run as root (pod: \"p_n(u)\", container: c)");
        assert!(of(&strict, &ImageUser { uid: None, name: "bob".into() }).is_err());
        assert!(of(&strict, &ImageUser { uid: Some(1), name: String::new() }).is_ok());
    }

    #[test]
    fn without_its_user_namespace_a_pod_does_not_run() {
        let mut asks = pod(serde_json::json!({}), serde_json::json!({"procMount": "Unmasked"}));
        asks.spec.as_mut().unwrap().host_users = Some(false);
        let error = of(&asks, &ImageUser { uid: Some(0), name: String::new() }).unwrap_err().to_string();
        assert_eq!(error, "can't set `spec.hostUsers: false`, runtime does not support user namespaces");
        asks.spec.as_mut().unwrap().runtime_class_name = Some("kata".into());
        let error = namespaces(&asks).unwrap_err().to_string();
        assert!(error.contains("RuntimeClass handler \"kata\" does not support user namespaces"), "{error}");
        asks.spec.as_mut().unwrap().host_users = Some(true);
        assert!(namespaces(&asks).is_ok());
    }

    #[test]
    fn the_runtime_is_told_of_the_apparmor_profile() {
        let profile = serde_json::json!({"appArmorProfile": {"type": "Localhost", "localhostProfile": "k8s-deny"}});
        let told = of(&pod(profile, serde_json::json!({})), &ImageUser::default()).unwrap().apparmor.unwrap();
        assert_eq!(told.profile_type(), pb::security_profile::ProfileType::Localhost);
        assert_eq!(told.localhost_ref, "k8s-deny");
        let none = of(&pod(serde_json::json!({}), serde_json::json!({})), &ImageUser::default()).unwrap();
        assert_eq!(none.apparmor, None);
    }

    #[test]
    fn read_only_to_the_ground_or_not_at_all() {
        let told = |mode: &str, read_only: bool, propagation: Option<&str>, supported| {
            let container: Container = serde_json::from_value(serde_json::json!({"name": "c", "volumeMounts": [{
                "name": "v", "mountPath": "/v", "readOnly": read_only, "recursiveReadOnly": mode,
                "mountPropagation": propagation,
            }]}))
            .unwrap();
            let mut mounts = [pb::Mount { readonly: read_only, ..Default::default() }];
            read_only_below(&container, &mut mounts, supported)
                .map(|()| mounts[0].recursive_read_only)
                .map_err(|error| error.to_string())
        };
        assert_eq!(told("Enabled", true, None, true), Ok(true));
        assert_eq!(told("IfPossible", true, Some("None"), false), Ok(false));
        assert_eq!(told("Disabled", false, None, false), Ok(false));
        let unsupported = told("Enabled", true, None, false).unwrap_err();
        assert_eq!(
            unsupported,
            "failed to resolve recursive read-only mode: volume \"v\" requested recursive read-only mode, but it is not \
             supported by the runtime"
        );
        assert!(
            told("Enabled", false, None, true).is_err() && told("Enabled", true, Some("Bidirectional"), true).is_err()
        );
    }
}
