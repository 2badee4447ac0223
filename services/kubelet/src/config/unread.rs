//! Fields of a KubeletConfiguration that this kubelet does nothing with. One that asks for Pods to be treated in another
//! way than they are here is refused: whoever wrote it relies on it. The others are named in the log.

use crate::error::{Error, Result};
use serde_json::Value;
use std::path::Path;

/// Fields that are read (by [`super::File`]), and those that every object has.
const READ: [&str; 38] = [
    "kind",
    "apiVersion",
    "address",
    "port",
    "healthzPort",
    "healthzBindAddress",
    "staticPodPath",
    "tlsCertFile",
    "tlsPrivateKeyFile",
    "authentication",
    "cgroupRoot",
    "cgroupDriver",
    "containerRuntimeEndpoint",
    "clusterDNS",
    "clusterDomain",
    "resolvConf",
    "nodeStatusUpdateFrequency",
    "nodeLeaseDurationSeconds",
    "maxPods",
    "podLogsDir",
    "serializeImagePulls",
    "maxParallelImagePulls",
    "containerLogMaxSize",
    "containerLogMaxFiles",
    "systemReserved",
    "kubeReserved",
    "evictionHard",
    "evictionPressureTransitionPeriod",
    "providerID",
    "allowedUnsafeSysctls",
    "imagePullCredentialsVerificationPolicy",
    "preloadedImagesVerificationAllowlist",
    // Of no consequence to Pods, and in every file that kubeadm writes.
    "authorization",
    "rotateCertificates",
    "logging",
    "featureGates",
    "syncFrequency",
    "fileCheckFrequency",
];

/// Fields that would change what Pods get, each with the values (as JSON) that ask for nothing else than what is.
const REFUSED: [(&str, &[&str]); 20] = [
    ("podPidsLimit", &["-1"]),
    ("protectKernelDefaults", &["false"]),
    ("seccompDefault", &["false"]),
    ("defaultPodSysctls", &["{}"]),
    ("cpuManagerPolicy", &["\"none\"", "\"\""]),
    ("memoryManagerPolicy", &["\"None\"", "\"\""]),
    ("topologyManagerPolicy", &["\"none\"", "\"\""]),
    ("reservedSystemCPUs", &["\"\""]),
    ("reservedMemory", &["[]"]),
    ("qosReserved", &["{}"]),
    ("memorySwap", &["{}", "{\"swapBehavior\":\"\"}", "{\"swapBehavior\":\"NoSwap\"}"]),
    ("memoryReservationPolicy", &["\"None\"", "\"\""]),
    ("cgroupsPerQOS", &["true"]),
    ("cpuCFSQuota", &["true"]),
    ("enforceNodeAllocatable", &["[\"pods\"]"]),
    ("evictionSoft", &["{}"]),
    ("shutdownGracePeriod", &["\"0s\"", "\"0\""]),
    ("shutdownGracePeriodByPodPriority", &["[]"]),
    ("tlsMinVersion", &["\"VersionTLS12\"", "\"\""]),
    ("userNamespaces", &["{}"]),
];

/// Looks through the fields of a file.
pub(super) fn check(path: &Path, file: &Value) -> Result<()> {
    for (field, value) in file.as_object().into_iter().flatten() {
        if value.is_null() || READ.contains(&field.as_str()) {
            continue;
        }
        let Some((_, neutral)) = REFUSED.iter().find(|(name, _)| name == field) else {
            tracing::warn!(field, file = %path.display(), "this field of the configuration is unknown or has no effect");
            continue;
        };
        let text = value.to_string();
        // As upstream takes it, any negative number is no limit.
        let is_no_limit = field == "podPidsLimit" && value.as_i64().is_some_and(|limit| limit < 0);
        if !is_no_limit && !neutral.contains(&text.as_str()) {
            return Err(Error::Config(format!(
                "--config={}: {field}: {text} is not implemented, and Pods would run without it; leave it out",
                path.display()
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_silently_be_missing_is_refused() {
        let checked = |field: &str, value: Value| check(Path::new("/c"), &serde_json::json!({field: value}));
        for (field, value) in [
            ("podPidsLimit", serde_json::json!(100)),
            ("seccompDefault", serde_json::json!(true)),
            ("protectKernelDefaults", serde_json::json!(true)),
            ("cpuManagerPolicy", serde_json::json!("static")),
            ("evictionSoft", serde_json::json!({"memory.available": "1Gi"})),
            ("enforceNodeAllocatable", serde_json::json!(["pods", "system-reserved"])),
        ] {
            let error = checked(field, value).unwrap_err().to_string();
            assert!(error.contains(field), "{error}");
        }
        for (field, value) in [
            ("podPidsLimit", serde_json::json!(-1)),
            ("seccompDefault", serde_json::json!(false)),
            ("shutdownGracePeriod", serde_json::json!("0s")),
            ("memorySwap", serde_json::json!({})),
            ("httpCheckFrequency", serde_json::json!("0s")),
            ("noSuchField", serde_json::json!(1)),
        ] {
            assert!(checked(field, value).is_ok(), "{field}");
        }
    }
}
