//! nodeInfo: which software runs here.

use crate::cri::Identity;
use k8s_openapi::api::core::v1::{NodeSwapStatus, NodeSystemInfo};

/// The version that this kubelet is compatible with.
const VERSION: &str = "v1.37.2";

/// Reads it all.
pub(super) fn read(runtime: &Identity) -> NodeSystemInfo {
    let line = |file: &str| std::fs::read_to_string(file).map(|text| text.trim().to_owned()).unwrap_or_default();
    let first = |files: &[&str]| files.iter().map(|file| line(file)).find(|text| !text.is_empty()).unwrap_or_default();
    let machine_id = first(&["/etc/machine-id", "/var/lib/dbus/machine-id"]);
    let swap = super::machine::meminfo("SwapTotal").ok();
    NodeSystemInfo {
        architecture: match std::env::consts::ARCH {
            "x86_64" => "amd64".into(),
            "aarch64" => "arm64".into(),
            other => other.into(),
        },
        boot_id: line("/proc/sys/kernel/random/boot_id"),
        container_runtime_version: format!("{}://{}", runtime.name, runtime.version),
        kernel_version: line("/proc/sys/kernel/osrelease"),
        kube_proxy_version: String::new(),
        kubelet_version: VERSION.into(),
        operating_system: "linux".into(),
        os_image: os_image(),
        system_uuid: {
            let uuid = first(&["/sys/class/dmi/id/product_uuid"]);
            if uuid.is_empty() { machine_id.clone() } else { uuid }
        },
        machine_id,
        running_in_user_namespace: None,
        swap: swap.map(|capacity| NodeSwapStatus { capacity: Some(capacity) }),
    }
}

fn os_image() -> String {
    let text = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or_else(|| "Unknown".into(), |name| name.trim_matches('"').to_owned())
}
