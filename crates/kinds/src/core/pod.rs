//! Pod (v1).

use trireme_machinery::gvk::GroupVersionKind;

use crate::definition::Definition;

/// What it is.
pub(crate) fn definition() -> Definition {
    Definition::new("", "v1", "Pod", "pods")
        .short(&["po"])
        .category("all")
        .generation()
        .serves("attach", "PodAttachOptions", &["create", "get"])
        .serves("binding", "Binding", &["create"])
        .serves("ephemeralcontainers", "Pod", &["get", "patch", "update"])
        .subresource("eviction", GroupVersionKind::new("policy", "v1", "Eviction"), &["create"])
        .serves("exec", "PodExecOptions", &["create", "get"])
        .serves("log", "Pod", &["get"])
        .serves("portforward", "PodPortForwardOptions", &["create", "get"])
        .serves("proxy", "PodProxyOptions", &["create", "delete", "get", "patch", "update"])
        .serves("resize", "Pod", &["get", "patch", "update"])
        .status()
}
