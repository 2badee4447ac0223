//! Ports and addresses of a pod as a Service sees them.

use k8s_openapi::api::core::v1::{Container, Pod, Service, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The number behind a Service's port in a pod; `None`: the pod has no port of that name.
pub(crate) fn target(pod: &Pod, port: &ServicePort) -> Option<i32> {
    let name = match &port.target_port {
        None => return Some(port.port),
        Some(IntOrString::Int(0)) => return Some(port.port),
        Some(IntOrString::Int(number)) => return Some(*number),
        Some(IntOrString::String(name)) => name,
    };
    let spec = pod.spec.as_ref()?;
    let sidecar = |c: &&Container| c.restart_policy.as_deref() == Some("Always");
    let sidecars = spec.init_containers.iter().flatten().filter(sidecar);
    let protocol = port.protocol.as_deref().unwrap_or("TCP");
    spec.containers
        .iter()
        .chain(sidecars)
        .flat_map(|c| c.ports.iter().flatten())
        .find(|p| p.name.as_ref() == Some(name) && p.protocol.as_deref().unwrap_or("TCP") == protocol)
        .map(|p| p.container_port)
}

/// The Service has no address of its own.
pub(crate) fn is_headless(service: &Service) -> bool {
    let address = service.spec.as_ref().and_then(|s| s.cluster_ip.as_deref()).unwrap_or_default();
    address.is_empty() || address == "None"
}

/// The pod's name is part of its endpoint's DNS name.
pub(crate) fn hostname(pod: &Pod, service: &Service) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let same = spec.subdomain == service.metadata.name && pod.metadata.namespace == service.metadata.namespace;
    spec.hostname.clone().filter(|h| same && !h.is_empty())
}

/// The pod's addresses.
pub(crate) fn addresses(pod: &Pod) -> Vec<std::net::IpAddr> {
    let ips = pod.status.as_ref().and_then(|s| s.pod_ips.as_ref());
    ips.into_iter().flatten().filter_map(|ip| ip.ip.parse().ok()).collect()
}
