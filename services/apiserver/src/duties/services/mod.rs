//! Cluster IPs and node ports of Services.
//!
//! An address that a Service holds is an IPAddress object, a port is a reservation under `/registry/ranges`; both are
//! made and removed in the Service's own transaction, so that neither can be given twice or leak, with any number of
//! API servers. Choosing one only looks into the watch cache: who comes second is asked again.

mod families;
mod ports;
mod range;
mod spec;

use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use trireme_kinds::{Kind, Registry};
use trireme_machinery::field;
use trireme_machinery::gvk::GroupVersionKind;
use trireme_machinery::meta;
use trireme_machinery::path::Path;
use trireme_machinery::status::Status;

pub use ports::{PortRange, all_of as ports_of, reservation, reservation_kind};
pub use range::AddressRange;

use crate::pipeline::{Companion, Companions, Context, Objects};
use spec::{
    cluster_ips, has_cluster_ip, is_headless, node_ports, set_cluster_ips, wants_health_check, wants_node_ports,
};

/// Marks an IPAddress as one of ours.
pub const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
/// Who we are in that label.
pub const MANAGER: &str = "ipallocator.k8s.io";
/// The family of an IPAddress.
pub const FAMILY: &str = "ipaddress.kubernetes.io/ip-family";

/// Gives Services their addresses and ports.
pub struct Allocator {
    objects: Arc<dyn Objects>,
    /// The first is the cluster's default family.
    ranges: Vec<AddressRange>,
    ports: PortRange,
    services: Arc<Kind>,
    addresses: Arc<Kind>,
    reservations: Arc<Kind>,
}

impl Allocator {
    /// An allocator of these ranges. `None` if the registry lacks one of its kinds.
    #[must_use]
    pub fn new(
        objects: Arc<dyn Objects>,
        registry: &Registry,
        ranges: Vec<AddressRange>,
        ports: PortRange,
    ) -> Option<Self> {
        let services = registry.by_resource("", "v1", "services")?;
        let addresses = registry.by_resource("networking.k8s.io", "v1", "ipaddresses")?;
        let reservations = reservation_kind(registry)?;
        Some(Self { objects, ranges, ports, services, addresses, reservations })
    }

    /// The ranges of addresses, the default family first.
    #[must_use]
    pub fn ranges(&self) -> &[AddressRange] {
        &self.ranges
    }

    /// The kind of a port's reservation.
    #[must_use]
    pub fn reservations(&self) -> &Arc<Kind> {
        &self.reservations
    }

    fn range_of(&self, family: &str) -> Option<&AddressRange> {
        self.ranges.iter().find(|range| range.family() == family)
    }

    fn is_taken(&self, address: IpAddr) -> bool {
        self.objects.reader().get(&self.addresses, "", &address.to_string()).is_some()
    }

    /// The IPAddress that records that `service` holds `address`.
    #[must_use]
    pub fn record(&self, address: IpAddr, service: &Value) -> Value {
        let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
        json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "IPAddress",
            "metadata": {"name": address.to_string(), "labels": {FAMILY: family, MANAGED_BY: MANAGER}},
            "spec": {"parentRef": {
                "group": "", "resource": "services",
                "namespace": meta::namespace(service), "name": meta::name(service),
            }},
        })
    }

    /// Fills in the addresses that `service` lacks and returns the new ones.
    fn allocate_addresses(&self, service: &mut Value, from: usize) -> Result<Vec<IpAddr>, Status> {
        let families: Vec<String> = families::of(service);
        let mut ips = cluster_ips(service);
        let mut new = Vec::new();
        for (index, family) in families.iter().enumerate().skip(from) {
            let Some(range) = self.range_of(family) else { continue };
            let given = ips.get(index).cloned().unwrap_or_default();
            let address = if given.is_empty() {
                let free = range.pick(|address| self.is_taken(address) || new.contains(&address));
                free.ok_or_else(|| {
                    let name = field_quote(meta::name(service));
                    Status::internal(format!("failed to allocate a serviceIP for Service {name}: range is full"))
                })?
            } else {
                let wanted: IpAddr =
                    given.parse().map_err(|_| Status::internal(format!("failed to parse service IP {given:?}")))?;
                let why = if !range.contains(wanted) {
                    Some(format!(
                        "the provided IP ({wanted}) is not in the valid range. The range of valid IPs is {range}"
                    ))
                } else {
                    self.is_taken(wanted).then(|| "provided IP is already allocated".to_owned())
                };
                if let Some(why) = why {
                    let path = Path::new("spec").child("clusterIPs");
                    let error = field::invalid(&path, &ips, format!("failed to allocate IP {given}: {why}"));
                    return Err(invalid(service, error));
                }
                wanted
            };
            if index < ips.len() {
                ips[index] = address.to_string();
            } else {
                ips.push(address.to_string());
            }
            new.push(address);
        }
        set_cluster_ips(service, &ips);
        Ok(new)
    }

    fn companions(&self, service: &Value, addresses: &[IpAddr], ports: &[u16]) -> Vec<Companion> {
        let addresses = addresses.iter().map(|address| Companion::Create {
            kind: self.addresses.clone(),
            namespace: String::new(),
            object: self.record(*address, service),
        });
        let ports = ports.iter().map(|port| Companion::Create {
            kind: self.reservations.clone(),
            namespace: String::new(),
            object: ports::reservation(*port, service),
        });
        addresses.chain(ports).collect()
    }

    fn releases(&self, addresses: &[String], ports: &[u16]) -> Vec<Companion> {
        let delete =
            |kind: &Arc<Kind>, name: String| Companion::Delete { kind: kind.clone(), namespace: String::new(), name };
        let addresses = addresses.iter().map(|address| delete(&self.addresses, address.clone()));
        let ports = ports.iter().map(|port| delete(&self.reservations, port.to_string()));
        addresses.chain(ports).collect()
    }

    fn port_in_use(&self, port: u16) -> bool {
        let services = self.objects.reader().list(&self.services, None);
        services.iter().any(|service| ports::all_of(&service.value()).contains(&port))
    }

    fn invalid_port(service: &Value, index: usize, port: u16, why: &str) -> Status {
        let path = Path::new("spec").child("ports").index(index).child("nodePort");
        invalid(service, field::invalid(&path, &port, why))
    }
}

/// Every address that a Service holds.
#[must_use]
pub fn addresses_of(service: &Value) -> Vec<String> {
    if has_cluster_ip(service) && !is_headless(service) { cluster_ips(service) } else { Vec::new() }
}

fn field_quote(text: &str) -> String {
    trireme_machinery::go::quote(text)
}

fn invalid(service: &Value, error: field::Error) -> Status {
    Status::invalid(&GroupVersionKind::new("", "v1", "Service"), meta::name(service), vec![error])
}

#[async_trait]
impl Companions for Allocator {
    async fn create(&self, _context: &Context, object: &mut Value, dry_run: bool) -> Result<Vec<Companion>, Status> {
        spec::normalise_cluster_ips(object, None);
        families::settle(object, None, &self.ranges)?;
        let mut addresses = Vec::new();
        // Addresses without the first of them alone are the validation's to refuse.
        let contradicts =
            object["spec"]["clusterIP"].as_str().is_none_or(str::is_empty) && !cluster_ips(object).is_empty();
        if has_cluster_ip(object) && !is_headless(object) && !contradicts {
            addresses = self.allocate_addresses(object, 0)?;
        }
        let mut ports = Vec::new();
        if wants_node_ports(object) || !node_ports(object).is_empty() {
            ports = self.allocate_ports(object, &[])?;
        }
        if wants_health_check(object) {
            ports.extend(self.allocate_health_check(object, &ports)?);
        }
        Ok(if dry_run { Vec::new() } else { self.companions(object, &addresses, &ports) })
    }

    async fn update(
        &self,
        _context: &Context,
        new: &mut Value,
        old: &Value,
        dry_run: bool,
    ) -> Result<Vec<Companion>, Status> {
        spec::keep_allocated(new, old);
        spec::normalise_cluster_ips(new, Some(old));
        families::settle(new, Some(old), &self.ranges)?;

        let had = addresses_of(old);
        let mut addresses = Vec::new();
        if has_cluster_ip(new) && !is_headless(new) {
            let first_new = if has_cluster_ip(old) { had.len() } else { 0 };
            if is_headless(old) && has_cluster_ip(old) {
                // A headless Service stays one: validation says so in its own words.
            } else {
                addresses = self.allocate_addresses(new, first_new)?;
            }
        }
        let has = addresses_of(new);
        // A change of an address that may not change is refused by validation, and nothing is released.
        let gone: Vec<String> = had.iter().skip(has.len()).cloned().collect();

        let before = ports::all_of(old);
        let mut ports = Vec::new();
        if wants_node_ports(new) || !node_ports(new).is_empty() {
            ports = self.allocate_ports(new, &before)?;
        }
        if wants_health_check(new) && !wants_health_check(old) {
            ports.extend(self.allocate_health_check(new, &ports)?);
        }
        let after = ports::all_of(new);
        let unused: Vec<u16> = before.into_iter().filter(|port| !after.contains(port)).collect();
        if dry_run {
            return Ok(Vec::new());
        }
        let mut companions = self.companions(new, &addresses, &ports);
        companions.extend(self.releases(&gone, &unused));
        Ok(companions)
    }

    fn delete(&self, old: &Value) -> Vec<Companion> {
        self.releases(&addresses_of(old), &ports::all_of(old))
    }
}
