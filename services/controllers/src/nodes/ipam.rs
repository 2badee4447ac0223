//! A range of pod addresses for each node.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use parking_lot::Mutex;
use serde_json::json;
use trireme_client::{
    Action, Client, Controller, EventRecorder, Object, ObjectKey, Patch, PatchParams, ReconcileError, Reconciler, Store,
};

use super::tell_status;
use crate::cluster::Cluster;

const NAME: &str = "node-ipam";

/// The cluster's range, cut into ranges of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ranges {
    first: u32,
    bits: u8,
    node_bits: u8,
}

impl Ranges {
    /// Reads the flags.
    pub(crate) fn parse(cidr: &str, node_bits: u8) -> Result<Self, String> {
        let wrong = || format!("--cluster-cidr {cidr:?} is not an IPv4 range like 10.244.0.0/16");
        let (address, bits) = cidr.split_once('/').ok_or_else(wrong)?;
        let address: Ipv4Addr = address.parse().map_err(|_| wrong())?;
        let bits: u8 = bits.parse().ok().filter(|b| *b <= 32).ok_or_else(wrong)?;
        if node_bits < bits || node_bits > 30 || node_bits - bits > 16 {
            return Err(format!("--node-cidr-mask-size {node_bits} does not fit into {cidr}"));
        }
        Ok(Self { first: u32::from(address) & mask(bits), bits, node_bits })
    }

    fn count(self) -> u32 {
        1 << (self.node_bits - self.bits)
    }

    fn range(self, index: u32) -> String {
        let address = self.first + (index << (32 - u32::from(self.node_bits)));
        format!("{}/{}", Ipv4Addr::from(address), self.node_bits)
    }

    /// The indexes of our ranges that a range covers, whatever its size.
    fn covered(self, cidr: &str) -> Vec<u32> {
        let Some((address, bits)) = cidr.split_once('/') else { return Vec::new() };
        let (Ok(address), Ok(bits)) = (address.parse::<Ipv4Addr>(), bits.parse::<u8>()) else { return Vec::new() };
        if bits > 32 {
            return Vec::new();
        }
        let first = u64::from(u32::from(address) & mask(bits));
        let last = first + (1u64 << (32 - u32::from(bits))) - 1;
        let size = 1u64 << (32 - u32::from(self.node_bits));
        let start = u64::from(self.first);
        let end = start + size * u64::from(self.count());
        if last < start || first >= end {
            return Vec::new();
        }
        let from = (first.max(start) - start) / size;
        let to = (last.min(end - 1) - start) / size;
        (from..=to).filter_map(|i| u32::try_from(i).ok()).collect()
    }

    /// The first range that nobody has.
    pub(crate) fn free<'a>(self, taken: impl IntoIterator<Item = &'a str>) -> Option<String> {
        let taken: BTreeSet<u32> = taken.into_iter().flat_map(|cidr| self.covered(cidr)).collect();
        (0..self.count()).find(|index| !taken.contains(index)).map(|index| self.range(index))
    }
}

fn mask(bits: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0)
}

struct Ipam {
    client: Client,
    events: EventRecorder,
    nodes: Store<Node>,
    ranges: Ranges,
    /// Ranges given to nodes whose change the informer has not seen.
    given: Mutex<BTreeMap<String, String>>,
}

/// The controller and its work.
pub(crate) fn controller(cluster: &Cluster, ranges: Ranges) -> (Controller, Arc<dyn Reconciler>) {
    let nodes = cluster.nodes();
    let controller = cluster.controller(NAME).watch(&nodes, |node| vec![node.key()]);
    let reconciler = Ipam {
        client: cluster.client.clone(),
        events: cluster.events("cidrAllocator"),
        nodes: nodes.store(),
        ranges,
        given: Mutex::default(),
    };
    (controller, Arc::new(reconciler))
}

fn range_of(node: &Node) -> Option<String> {
    node.spec.as_ref()?.pod_cidr.clone().filter(|c| !c.is_empty())
}

#[async_trait::async_trait]
impl Reconciler for Ipam {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let node = self.nodes.get(key).filter(|n| !n.is_deleting() && range_of(n).is_none());
        let Some(node) = node else {
            self.given.lock().remove(&key.name);
            return Ok(Action::Done);
        };
        let Some(range) = self.choose(&key.name) else {
            tell_status(&self.events, &node, "CIDRNotAvailable");
            return Err(ReconcileError::other("no range of pod addresses is left"));
        };
        let patch = json!({
            "metadata": {"uid": node.uid(), "resourceVersion": node.metadata.resource_version},
            "spec": {"podCIDR": range, "podCIDRs": [range]},
        });
        match self.client.api::<Node>().patch(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => Ok(Action::Done),
            Err(error) => {
                if !error.is_conflict() && !error.is_outcome_unknown() {
                    tell_status(&self.events, &node, "CIDRAssignmentFailed");
                }
                Err(error.into())
            }
        }
    }
}

impl Ipam {
    /// The same range again for a node that was given one, else a free one.
    fn choose(&self, name: &str) -> Option<String> {
        let mut given = self.given.lock();
        let known: Vec<String> = self.nodes.list().iter().filter_map(|n| range_of(n)).collect();
        // Another worker may have given it to another node while this one was paused.
        if let Some(range) = given.get(name).filter(|r| !known.contains(r)) {
            return Some(range.clone());
        }
        let range = self.ranges.free(known.iter().chain(given.values()).map(String::as_str))?;
        given.insert(name.to_owned(), range.clone());
        Some(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_given_in_order_and_once() {
        let ranges = Ranges::parse("10.244.0.0/16", 24).unwrap();
        assert_eq!(ranges.free([]).unwrap(), "10.244.0.0/24");
        assert_eq!(ranges.free(["10.244.0.0/24", "10.244.2.0/24"]).unwrap(), "10.244.1.0/24");
        assert_eq!(ranges.free(["10.244.0.0/23", "192.168.0.0/24"]).unwrap(), "10.244.2.0/24");
        assert_eq!(ranges.free(["10.0.0.0/8"]), None);
    }

    #[test]
    fn a_small_range_is_used_up() {
        let ranges = Ranges::parse("10.1.0.0/25", 26).unwrap();
        assert_eq!(ranges.free(["10.1.0.0/26"]).unwrap(), "10.1.0.64/26");
        assert_eq!(ranges.free(["10.1.0.0/26", "10.1.0.64/26"]), None);
    }

    #[test]
    fn bad_flags_are_named() {
        assert!(Ranges::parse("10.244.0.0", 24).unwrap_err().contains("--cluster-cidr"));
        assert!(Ranges::parse("10.244.0.0/25", 24).unwrap_err().contains("--node-cidr-mask-size"));
    }
}
