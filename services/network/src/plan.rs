//! The planner: pure, from the nodes of the cluster to what this node's network should be.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

/// The newest version that Debian's plugins and containerd 1.6 speak.
const CNI_VERSION: &str = "1.0.0";

/// What the flags say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Name of the network and of the rules' table.
    pub name: String,
    /// Name of the bridge.
    pub bridge: String,
    /// Range of all pods' addresses, if it is known.
    pub cluster_cidr: Option<Cidr>,
    /// Where host-local keeps what it gave.
    pub ipam_dir: PathBuf,
    /// This node.
    pub node_name: String,
}

/// What this node's network should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// This node's range of pods' addresses.
    pub pod_cidr: Cidr,
    /// This node's own address, if it has one.
    pub node_ip: Option<Ipv4Addr>,
    /// Other nodes' ranges and the addresses they are reached at.
    pub routes: BTreeMap<Cidr, Ipv4Addr>,
    /// Nodes whose range is not believed, and why.
    pub refused: BTreeMap<String, String>,
    /// The table of rules, as one transaction.
    pub rules: String,
}

/// A range of IPv4 addresses; the bits after the prefix are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr {
    base: Ipv4Addr,
    prefix: u8,
}

impl Cidr {
    /// Whether all of `other` is in it.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        other.prefix >= self.prefix && mask(other.base, self.prefix) == self.base
    }

    /// Whether any address is in both.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.contains(other) || other.contains(self)
    }

    fn has(&self, address: Ipv4Addr) -> bool {
        mask(address, self.prefix) == self.base
    }
}

/// What this node's network should be; none while the node has no range that can be one.
///
/// A node tells its range itself when it registers, so it is not believed blindly: what is no part of the Pods' range, or
/// belongs to somebody already, would draw traffic of others to that node.
#[must_use]
pub fn plan(nodes: &[Arc<Node>], settings: &Settings) -> Option<Plan> {
    let own = nodes.iter().find(|node| name(node) == settings.node_name)?;
    let pod_cidr = pod_cidr(own)?;
    let addresses: Vec<Ipv4Addr> = nodes.iter().filter_map(|node| internal_ip(node)).collect();
    if let Some(why) = misplaced(pod_cidr, &addresses, settings) {
        tracing::warn!(range = %pod_cidr, "this node's range is refused: {why}");
        return None;
    }
    let (mut routes, mut refused) = (BTreeMap::new(), BTreeMap::new());
    let mut taken = vec![(settings.node_name.clone(), pod_cidr)];
    // Of two nodes with the same range, the one that was there first has it.
    let mut others: Vec<&Arc<Node>> = nodes.iter().filter(|node| name(node) != settings.node_name).collect();
    others.sort_by_key(|node| (node.metadata.creation_timestamp.as_ref().map(|at| at.0), name(node).to_owned()));
    for node in others {
        let Some(range) = self::pod_cidr(node) else { continue };
        let overlap = || {
            let holder = taken.iter().find(|(_, other)| other.overlaps(&range));
            holder.map(|(name, other)| format!("{range} overlaps {other} of node {name}"))
        };
        if let Some(why) = misplaced(range, &addresses, settings).or_else(overlap) {
            refused.insert(name(node).to_owned(), why);
            continue;
        }
        taken.push((name(node).to_owned(), range));
        if let Some(address) = internal_ip(node) {
            routes.insert(range, address);
        }
    }
    let rules = rules(pod_cidr, &routes, settings);
    Some(Plan { pod_cidr, node_ip: internal_ip(own), routes, refused, rules })
}

/// Why a range can't be one of Pods.
fn misplaced(range: Cidr, nodes: &[Ipv4Addr], settings: &Settings) -> Option<String> {
    match settings.cluster_cidr {
        Some(cluster) if !cluster.contains(&range) => {
            return Some(format!("{range} is not within --cluster-cidr {cluster}"));
        }
        _ => {}
    }
    let node = nodes.iter().find(|address| range.has(**address))?;
    Some(format!("{range} has the address {node} of a node in it"))
}

fn name(node: &Node) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
}

impl Plan {
    /// The CNI configuration list: a bridge with addresses of this node's range, and ports of the host.
    #[must_use]
    pub fn conflist(&self, settings: &Settings, mtu: Option<u32>) -> Value {
        let mut bridge = json!({
            "type": "bridge",
            "bridge": settings.bridge,
            "isGateway": true,
            "isDefaultGateway": true,
            "forceAddress": true,
            // The rules masquerade: the plugin's own masquerading knows only this node's range.
            "ipMasq": false,
            // A pod reaches itself through its Service.
            "hairpinMode": true,
            "promiscMode": false,
            "ipam": {
                "type": "host-local",
                "dataDir": settings.ipam_dir,
                "ranges": [[{ "subnet": self.pod_cidr.to_string() }]],
            },
        });
        if let Some(mtu) = mtu {
            bridge["mtu"] = json!(mtu);
        }
        json!({
            "cniVersion": CNI_VERSION,
            "name": settings.name,
            "plugins": [
                bridge,
                { "type": "portmap", "snat": true, "capabilities": { "portMappings": true } },
            ],
        })
    }
}

/// Masquerades what leaves the pods' ranges.
fn rules(own: Cidr, routes: &BTreeMap<Cidr, Ipv4Addr>, settings: &Settings) -> String {
    let table = &settings.name;
    let ranges: BTreeSet<Cidr> = match settings.cluster_cidr {
        Some(range) => BTreeSet::from([range]),
        None => routes.keys().copied().chain([own]).collect(),
    };
    let inside: Vec<String> = ranges.iter().map(ToString::to_string).collect();
    let inside = inside.join(", ");
    format!(
        "add table ip {table}\n\
         delete table ip {table}\n\
         add table ip {table}\n\
         add set ip {table} inside {{ type ipv4_addr ; flags interval ; elements = {{ {inside} }} ; }}\n\
         add chain ip {table} postrouting {{ type nat hook postrouting priority 100 ; }}\n\
         add rule ip {table} postrouting ip saddr {own} ip daddr != @inside ip daddr != 224.0.0.0/4 masquerade\n"
    )
}

fn pod_cidr(node: &Node) -> Option<Cidr> {
    let spec = node.spec.as_ref()?;
    spec.pod_cidrs.iter().flatten().chain(&spec.pod_cidr).find_map(|range| range.parse().ok())
}

fn internal_ip(node: &Node) -> Option<Ipv4Addr> {
    let addresses = node.status.as_ref()?.addresses.as_ref()?;
    addresses.iter().filter(|address| address.type_ == "InternalIP").find_map(|address| address.address.parse().ok())
}

fn mask(address: Ipv4Addr, prefix: u8) -> Ipv4Addr {
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
    Ipv4Addr::from(u32::from(address) & mask)
}

// === impl Cidr ===

impl FromStr for Cidr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (base, prefix) = text.split_once('/').ok_or("not of the form address/bits")?;
        let base: Ipv4Addr = base.parse().map_err(|_| "not an IPv4 address")?;
        let prefix: u8 = prefix.parse().ok().filter(|bits| *bits <= 32).ok_or("the bits are not 0 to 32")?;
        Ok(Self { base: mask(base, prefix), prefix })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, range: Option<&str>, address: Option<&str>) -> Arc<Node> {
        let mut value = json!({ "metadata": { "name": name } });
        if let Some(range) = range {
            value["spec"] = json!({ "podCIDR": range, "podCIDRs": [range, "fd00:1::/64"] });
        }
        if let Some(address) = address {
            value["status"] = json!({ "addresses": [{ "type": "InternalIP", "address": address }] });
        }
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn settings() -> Settings {
        Settings {
            name: "trireme-a".to_owned(),
            bridge: "tri-a".to_owned(),
            cluster_cidr: None,
            ipam_dir: "/var/lib/cni/networks".into(),
            node_name: "n1".to_owned(),
        }
    }

    #[test]
    fn nothing_without_a_range() {
        assert_eq!(plan(&[], &settings()), None);
        assert_eq!(plan(&[node("n1", None, Some("192.168.7.1"))], &settings()), None);
        assert_eq!(plan(&[node("n2", Some("10.244.1.0/24"), Some("192.168.7.2"))], &settings()), None);
    }

    #[test]
    fn routes_to_the_others() {
        let nodes = [
            node("n1", Some("10.244.0.0/24"), Some("192.168.7.1")),
            node("n2", Some("10.244.1.0/24"), Some("192.168.7.2")),
            node("n3", Some("10.244.2.0/24"), None),
            node("n4", None, Some("192.168.7.4")),
        ];
        let made = plan(&nodes, &settings()).unwrap();
        assert_eq!(made.pod_cidr.to_string(), "10.244.0.0/24");
        assert_eq!(made.node_ip, Some(Ipv4Addr::new(192, 168, 7, 1)));
        let routes: Vec<_> = made.routes.iter().map(|(range, via)| format!("{range} {via}")).collect();
        assert_eq!(routes, ["10.244.1.0/24 192.168.7.2"]);
        assert!(made.rules.contains("elements = { 10.244.0.0/24, 10.244.1.0/24 }"), "{}", made.rules);
        let known = Settings { cluster_cidr: Some("10.244.0.0/16".parse().unwrap()), ..settings() };
        assert!(plan(&nodes, &known).unwrap().rules.contains("elements = { 10.244.0.0/16 }"));
    }

    #[test]
    fn the_configuration_list() {
        let made = plan(&[node("n1", Some("10.244.0.0/24"), None)], &settings()).unwrap();
        let list = made.conflist(&settings(), Some(1450));
        assert_eq!(list["plugins"][0]["ipam"]["ranges"][0][0]["subnet"], "10.244.0.0/24");
        assert_eq!(list["plugins"][0]["mtu"], 1450);
        assert_eq!(list["plugins"][0]["bridge"], "tri-a");
        assert!(made.conflist(&settings(), None)["plugins"][0].get("mtu").is_none());
    }

    #[test]
    fn ranges() {
        let cluster: Cidr = "10.244.3.4/16".parse().unwrap();
        assert_eq!(cluster.to_string(), "10.244.0.0/16");
        assert!(cluster.contains(&"10.244.9.0/24".parse().unwrap()));
        assert!(!cluster.contains(&"10.0.0.0/8".parse().unwrap()));
        assert!(!cluster.contains(&"10.245.0.0/24".parse().unwrap()));
    }

    #[test]
    fn a_range_is_not_believed_whatever_it_is() {
        let aged = |name: &str, range: &str, address: &str, born: &str| {
            let mut node = (*node(name, Some(range), Some(address))).clone();
            let born = serde_json::from_value(json!(born)).unwrap();
            node.metadata.creation_timestamp = Some(born);
            Arc::new(node)
        };
        let nodes = [
            aged("n1", "10.244.0.0/24", "192.168.7.1", "2026-01-01T00:00:00Z"),
            aged("n9", "10.244.1.0/24", "192.168.7.2", "2026-01-02T00:00:00Z"),
            aged("all", "0.0.0.0/0", "192.168.7.3", "2026-01-03T00:00:00Z"),
            aged("lan", "192.168.7.0/24", "192.168.7.4", "2026-01-03T00:00:00Z"),
            aged("services", "10.96.0.0/16", "192.168.7.5", "2026-01-03T00:00:00Z"),
            aged("ours", "10.244.0.128/25", "192.168.7.6", "2026-01-03T00:00:00Z"),
            aged("a-late", "10.244.1.0/25", "192.168.7.7", "2026-01-03T00:00:00Z"),
        ];
        let known = Settings { cluster_cidr: Some("10.244.0.0/16".parse().unwrap()), ..settings() };
        let made = plan(&nodes, &known).unwrap();
        assert_eq!(made.routes.keys().map(ToString::to_string).collect::<Vec<_>>(), ["10.244.1.0/24"]);
        let refused: Vec<&str> = made.refused.keys().map(String::as_str).collect();
        assert_eq!(refused, ["a-late", "all", "lan", "ours", "services"]);
        assert_eq!(made.refused["a-late"], "10.244.1.0/25 overlaps 10.244.1.0/24 of node n9");
        // Without a range of the cluster, what can be seen to be wrong.
        let unknown = plan(&nodes, &settings()).unwrap();
        assert_eq!(unknown.refused.keys().collect::<Vec<_>>(), ["a-late", "all", "lan", "ours"]);
        assert_eq!(plan(&[node("n1", Some("10.96.0.0/24"), None)], &known), None, "nor this node's own");
    }
}
