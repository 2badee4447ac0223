//! What the planner sees of Services and EndpointSlices: one entry per service port, with its endpoints.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Service, ServicePort as ApiPort};
use k8s_openapi::api::discovery::v1::EndpointSlice;

use crate::cidr::Cidr;

/// Label of a Service that another proxy handles.
const OTHER_PROXY: &str = "service.kubernetes.io/service-proxy-name";
/// Label of an EndpointSlice that names its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Taint of a node that is about to go.
const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";

/// A transport protocol, in nft's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Protocol {
    fn parse(text: Option<&str>) -> Option<Self> {
        match text.unwrap_or("TCP") {
            "TCP" => Some(Self::Tcp),
            "UDP" => Some(Self::Udp),
            "SCTP" => Some(Self::Sctp),
            _ => None,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        })
    }
}

/// What a service port is known by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortName {
    /// The Service's namespace.
    pub namespace: String,
    /// The Service's name.
    pub service: String,
    /// The port's name; empty if it has none.
    pub port: String,
    /// Its protocol.
    pub protocol: Protocol,
}

/// One port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// Its name.
    pub name: PortName,
    /// Its cluster IP.
    pub cluster_ip: Ipv4Addr,
    /// The port at all of the Service's addresses.
    pub port: u16,
    /// The port at the nodes.
    pub node_port: Option<u16>,
    /// Other addresses of the Service.
    pub external_ips: Vec<Ipv4Addr>,
    /// Its load balancers' addresses.
    pub load_balancer_ips: Vec<Ipv4Addr>,
    /// Who may come through the load balancer; everybody if empty.
    pub source_ranges: Vec<Cidr>,
    /// How many seconds a client stays with its endpoint.
    pub affinity_seconds: Option<u32>,
    /// Traffic from inside goes to this node's endpoints only.
    pub internal_local: bool,
    /// Traffic from outside goes to this node's endpoints only.
    pub external_local: bool,
    /// Where it goes.
    pub endpoints: BTreeMap<(Ipv4Addr, u16), Endpoint>,
}

/// One endpoint of a service port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// It takes new connections.
    pub ready: bool,
    /// It answers, though it may be about to go.
    pub serving: bool,
    /// It is about to go.
    pub terminating: bool,
    /// It is on this node.
    pub local: bool,
    /// The zones it is meant for; none: no hint.
    pub zones: BTreeSet<String>,
}

/// What matters of this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeView {
    /// Its name.
    pub name: String,
    /// Its own addresses.
    pub addresses: Vec<Ipv4Addr>,
    /// Its zone.
    pub zone: Option<String>,
    /// Load balancers may send traffic here.
    pub eligible: bool,
}

impl NodeView {
    /// Of a node of this name that is perhaps not registered yet.
    #[must_use]
    pub fn new(name: &str, node: Option<&Node>) -> Self {
        let meta = node.map(|node| &node.metadata);
        let status = node.and_then(|node| node.status.as_ref());
        let spec = node.and_then(|node| node.spec.as_ref());
        let going = meta.is_some_and(|meta| meta.deletion_timestamp.is_some())
            || spec.into_iter().flat_map(|spec| spec.taints.iter().flatten()).any(|taint| taint.key == TO_BE_DELETED);
        let mut addresses: Vec<Ipv4Addr> = status
            .into_iter()
            .flat_map(|status| status.addresses.iter().flatten())
            .filter(|address| address.type_ == "InternalIP")
            .filter_map(|address| address.address.parse().ok())
            .collect();
        addresses.sort_unstable();
        addresses.dedup();
        Self {
            name: name.to_owned(),
            addresses,
            zone: meta.and_then(|meta| meta.labels.as_ref()?.get("topology.kubernetes.io/zone").cloned()),
            eligible: !going,
        }
    }
}

/// The service ports that this proxy handles, with their endpoints.
#[must_use]
pub fn service_ports(services: &[Arc<Service>], slices: &[Arc<EndpointSlice>], node: &NodeView) -> Vec<ServicePort> {
    let mut ports: BTreeMap<PortName, ServicePort> =
        services.iter().flat_map(|service| ports_of(service)).map(|port| (port.name.clone(), port)).collect();
    for slice in slices {
        add_endpoints(&mut ports, slice, node);
    }
    ports.into_values().collect()
}

fn ports_of(service: &Service) -> Vec<ServicePort> {
    let Some(spec) = &service.spec else { return Vec::new() };
    let labels = service.metadata.labels.as_ref();
    if spec.type_.as_deref() == Some("ExternalName") || labels.is_some_and(|labels| labels.contains_key(OTHER_PROXY)) {
        return Vec::new();
    }
    let cluster_ips = spec.cluster_ips.iter().flatten().chain(&spec.cluster_ip);
    // Headless: "None" is no address.
    let Some(cluster_ip) = cluster_ips.filter_map(|ip| ip.parse::<Ipv4Addr>().ok()).next() else { return Vec::new() };
    let affinity_seconds = (spec.session_affinity.as_deref() == Some("ClientIP")).then(|| {
        let config = spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref());
        config.and_then(|client| u32::try_from(client.timeout_seconds?).ok()).unwrap_or(10_800)
    });
    let balancers = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let made = |port: &ApiPort| {
        Some(ServicePort {
            name: PortName {
                namespace: service.metadata.namespace.clone().unwrap_or_default(),
                service: service.metadata.name.clone().unwrap_or_default(),
                port: port.name.clone().unwrap_or_default(),
                protocol: Protocol::parse(port.protocol.as_deref())?,
            },
            cluster_ip,
            port: u16::try_from(port.port).ok()?,
            node_port: port.node_port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0),
            external_ips: spec.external_ips.iter().flatten().filter_map(|ip| ip.parse().ok()).collect(),
            load_balancer_ips: balancers
                .into_iter()
                .flat_map(|status| status.ingress.iter().flatten())
                .filter(|ingress| ingress.ip_mode.as_deref() != Some("Proxy"))
                .filter_map(|ingress| ingress.ip.as_ref()?.parse().ok())
                .collect(),
            source_ranges: spec
                .load_balancer_source_ranges
                .iter()
                .flatten()
                .filter_map(|range| range.trim().parse().ok())
                .collect(),
            affinity_seconds,
            internal_local: spec.internal_traffic_policy.as_deref() == Some("Local"),
            external_local: spec.external_traffic_policy.as_deref() == Some("Local"),
            endpoints: BTreeMap::new(),
        })
    };
    spec.ports.iter().flatten().filter_map(made).collect()
}

fn add_endpoints(ports: &mut BTreeMap<PortName, ServicePort>, slice: &EndpointSlice, node: &NodeView) {
    let Some(service) = slice.metadata.labels.as_ref().and_then(|labels| labels.get(SERVICE_NAME)) else { return };
    if slice.address_type != "IPv4" || slice.metadata.deletion_timestamp.is_some() {
        return;
    }
    for port in slice.ports.iter().flatten() {
        let Some(protocol) = Protocol::parse(port.protocol.as_deref()) else { continue };
        let Some(number) = port.port.and_then(|port| u16::try_from(port).ok()) else { continue };
        let name = PortName {
            namespace: slice.metadata.namespace.clone().unwrap_or_default(),
            service: service.clone(),
            port: port.name.clone().unwrap_or_default(),
            protocol,
        };
        let Some(entry) = ports.get_mut(&name) else { continue };
        for endpoint in slice.endpoints.iter().flatten() {
            // The addresses of one endpoint are the same Pod's; the first one stands for it.
            let Some(ip) = endpoint.addresses.first().and_then(|ip| ip.parse().ok()) else { continue };
            let conditions = endpoint.conditions.clone().unwrap_or_default();
            let ready = conditions.ready.unwrap_or(true);
            let made = Endpoint {
                ready,
                serving: conditions.serving.unwrap_or(ready),
                terminating: conditions.terminating.unwrap_or(false),
                local: endpoint.node_name.as_deref() == Some(node.name.as_str()),
                zones: endpoint
                    .hints
                    .iter()
                    .flat_map(|hints| hints.for_zones.iter().flatten())
                    .map(|zone| zone.name.clone())
                    .collect(),
            };
            // Two slices may hold the same endpoint while it moves between them: ready in one is ready.
            let known = entry.endpoints.entry((ip, number)).or_default();
            if !known.ready || made.ready {
                *known = made;
            }
        }
    }
}
