//! What the runtime is told of a Pod's sandbox.

use super::security;
use super::view::{self, spec};
use crate::admission::sysctls::normalized;
use crate::cri::names;
use crate::error::Result;
use k8s_openapi::api::core::v1::Pod;
use std::path::PathBuf;
use trireme_proto::runtime::v1 as pb;

/// What of the node a sandbox needs.
#[derive(Debug, Clone)]
pub struct Place {
    /// The Pod's folder of logs.
    pub log_directory: PathBuf,
    /// The Pod's cgroup.
    pub cgroup_parent: String,
    /// Names.
    pub dns: pb::DnsConfig,
    /// Host name within the Pod.
    pub hostname: String,
    /// Domain of the host name.
    pub domain: String,
}

/// The sandbox of a Pod.
pub fn config(pod: &Pod, attempt: u32, place: &Place) -> Result<pb::PodSandboxConfig> {
    let spec = spec(pod);
    let host_network = view::host_network(pod);
    let hostname = match spec.set_hostname_as_fqdn {
        Some(true) if !place.domain.is_empty() => format!("{}.{}", place.hostname, place.domain),
        _ => place.hostname.clone(),
    };
    let context = spec.security_context.clone().unwrap_or_default();
    let sysctls =
        context.sysctls.into_iter().flatten().map(|sysctl| (normalized(&sysctl.name), sysctl.value)).collect();
    Ok(pb::PodSandboxConfig {
        metadata: Some(pb::PodSandboxMetadata {
            name: view::name(pod).to_owned(),
            uid: view::uid(pod).to_owned(),
            namespace: view::namespace(pod).to_owned(),
            attempt,
        }),
        hostname: if host_network { String::new() } else { hostname },
        log_directory: place.log_directory.to_string_lossy().into_owned(),
        dns_config: Some(place.dns.clone()),
        port_mappings: if host_network { Vec::new() } else { port_mappings(pod) },
        labels: names::sandbox_labels(pod),
        annotations: names::sandbox_annotations(pod),
        linux: Some(pb::LinuxPodSandboxConfig {
            cgroup_parent: place.cgroup_parent.clone(),
            security_context: Some(pb::LinuxSandboxSecurityContext {
                namespace_options: Some(security::namespaces(pod)?),
                run_as_user: context.run_as_user.map(|value| pb::Int64Value { value }),
                run_as_group: context.run_as_group.map(|value| pb::Int64Value { value }),
                supplemental_groups: security::groups(pod),
                supplemental_groups_policy: security::groups_policy(pod).into(),
                privileged: security::has_privileged(pod),
                seccomp: Some(pb::SecurityProfile {
                    profile_type: pb::security_profile::ProfileType::RuntimeDefault.into(),
                    localhost_ref: String::new(),
                }),
                ..Default::default()
            }),
            sysctls,
            ..Default::default()
        }),
    })
}

fn port_mappings(pod: &Pod) -> Vec<pb::PortMapping> {
    let containers =
        spec(pod).containers.iter().chain(view::init_containers(pod).iter().filter(|c| view::is_sidecar(c)));
    let mut mappings: Vec<pb::PortMapping> = Vec::new();
    for port in containers.flat_map(|container| container.ports.iter().flatten()) {
        let protocol = match port.protocol.as_deref() {
            Some("UDP") => pb::Protocol::Udp,
            Some("SCTP") => pb::Protocol::Sctp,
            _ => pb::Protocol::Tcp,
        };
        let mapping = pb::PortMapping {
            protocol: protocol.into(),
            container_port: port.container_port,
            host_port: port.host_port.unwrap_or_default(),
            host_ip: port.host_ip.clone().unwrap_or_default(),
        };
        if mapping.host_port > 0 && !mappings.contains(&mapping) {
            mappings.push(mapping);
        }
    }
    mappings
}
