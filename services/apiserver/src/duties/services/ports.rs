//! Node ports.

use std::fmt;
use std::sync::Arc;

use rand::Rng as _;
use serde_json::{Value, json};
use trireme_kinds::{Kind, Registry};
use trireme_machinery::meta;
use trireme_machinery::status::Status;

use super::Allocator;
use super::spec::{node_ports, wants_node_ports};

const TRIES: usize = 64;

/// The ports that Services may have on nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// Reads `30000-32767`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a range of ports (as 30000-32767)");
        let (first, last) = text.trim().split_once('-').ok_or_else(wrong)?;
        let (first, last) = (first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?);
        if first == 0 || first > last { Err(wrong()) } else { Ok(Self { first, last }) }
    }

    fn contains(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }

    /// A free port. The lower part is left to those who ask for a port by number, while there are others.
    pub fn pick(self, taken: impl Fn(u16) -> bool) -> Option<u16> {
        let size = self.last - self.first + 1;
        let reserved = if size < 32 { 0 } else { (size / 32).clamp(16, 128) };
        let from = self.first + reserved;
        let mut random = rand::rng();
        let tried = (0..TRIES).map(|_| random.random_range(from..=self.last)).find(|port| !taken(*port));
        tried.or_else(|| (from..=self.last).chain(self.first..from).find(|port| !taken(*port)))
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// The kind of a port's reservation: not served, only stored beside the range that a stock API server keeps, and written
/// like a ConfigMap. `None` if the registry lacks that.
pub fn reservation_kind(registry: &Registry) -> Option<Arc<Kind>> {
    let like = registry.by_resource("", "v1", "configmaps")?;
    Some(Arc::new(Kind {
        kind: "RangeAllocation".into(),
        list_kind: "RangeAllocationList".into(),
        plural: "rangeallocations".into(),
        singular: "rangeallocation".into(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: false,
        verbs: Vec::new(),
        subresources: Vec::new(),
        storage: "ranges/nodeports".into(),
        ..Kind::clone(&like)
    }))
}

/// The reservation of a port for a Service.
#[must_use]
pub fn reservation(port: u16, service: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "RangeAllocation",
        "metadata": {"name": port.to_string()},
        "data": {"holder": format!("{}/{}", meta::namespace(service), meta::name(service))},
    })
}

/// Every port that a Service holds: those of its ports, and the one for health checks.
#[must_use]
pub fn all_of(service: &Value) -> Vec<u16> {
    let health = service["spec"]["healthCheckNodePort"].as_u64().and_then(|port| u16::try_from(port).ok());
    let mut ports = node_ports(service);
    ports.extend(health.filter(|port| *port != 0));
    ports.sort_unstable();
    ports.dedup();
    ports
}

impl Allocator {
    fn check_port(&self, port: u16) -> Result<(), String> {
        if !self.ports.contains(port) {
            let range = self.ports;
            return Err(format!("provided port is not in the valid range. The range of valid ports is {range}"));
        }
        if self.port_in_use(port) { Err("provided port is already allocated".to_owned()) } else { Ok(()) }
    }

    /// Fills in the node ports that `service` lacks, and returns those that are new. `held` are its own from before.
    /// Ports of the same number (UDP and TCP 53) share one.
    pub(super) fn allocate_ports(&self, service: &mut Value, held: &[u16]) -> Result<Vec<u16>, Status> {
        let wanted = wants_node_ports(service);
        let updating = !held.is_empty() || service["metadata"]["resourceVersion"].is_string();
        let count = service["spec"]["ports"].as_array().map_or(0, Vec::len);
        let mut new: Vec<u16> = Vec::new();
        for index in 0..count {
            let entry = &service["spec"]["ports"][index];
            let number = entry["port"].as_i64();
            let given = entry["nodePort"].as_u64().and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0);
            if given.is_none() && !wanted {
                continue;
            }
            // Another port of the same number may have one, given or just chosen.
            let shared = (given.is_none() && !updating).then(|| shared_port(service, number)).flatten();
            let port = match given.or(shared) {
                Some(port) => {
                    if !held.contains(&port) && !new.contains(&port) {
                        self.check_port(port).map_err(|why| Self::invalid_port(service, index, port, &why))?;
                        new.push(port);
                    }
                    port
                }
                None => {
                    let taken = |port| held.contains(&port) || new.contains(&port) || self.port_in_use(port);
                    let port = self.ports.pick(taken);
                    let port = port.ok_or_else(|| Status::internal("failed to allocate a nodePort: range is full"))?;
                    new.push(port);
                    port
                }
            };
            service["spec"]["ports"][index]["nodePort"] = json!(port);
        }
        Ok(new)
    }

    /// The port on which a load balancer asks for the Service's health.
    pub(super) fn allocate_health_check(&self, service: &mut Value, new: &[u16]) -> Result<Option<u16>, Status> {
        let given = service["spec"]["healthCheckNodePort"].as_u64().and_then(|port| u16::try_from(port).ok());
        if let Some(port) = given.filter(|port| *port != 0) {
            let failed =
                |why| Status::internal(format!("failed to allocate requested HealthCheck NodePort {port}: {why}"));
            self.check_port(port).map_err(failed)?;
            return Ok(Some(port));
        }
        let port = self.ports.pick(|port| new.contains(&port) || self.port_in_use(port));
        let port =
            port.ok_or_else(|| Status::internal("failed to allocate a HealthCheck NodePort 0: range is full"))?;
        service["spec"]["healthCheckNodePort"] = json!(port);
        Ok(Some(port))
    }
}

fn shared_port(service: &Value, number: Option<i64>) -> Option<u16> {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let same = ports.filter(|port| port["port"].as_i64() == number).filter_map(|port| port["nodePort"].as_u64());
    same.filter_map(|port| u16::try_from(port).ok()).find(|port| *port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_ports() {
        let range = PortRange::parse("30000-32767").unwrap();
        assert_eq!(range.to_string(), "30000-32767");
        for _ in 0..100 {
            assert!(range.pick(|_| false).unwrap() >= 30000 + 86);
        }
        assert_eq!(range.pick(|port| port != 30001), Some(30001));
        assert!(PortRange::parse("5").is_err());
    }
}
