//! Soft constraints: the fewer pods a node's domains have, the better.

use std::collections::{HashMap, HashSet};

use super::constraint::Constraint;
use super::count;
use crate::framework::{Ask, MAX_SCORE, Rate};
use crate::model::NodeInfo;

pub(super) struct Evenness<'a> {
    namespace: &'a str,
    constraints: Vec<Weighted<'a>>,
    left_out: HashSet<&'a str>,
}

struct Weighted<'a> {
    constraint: Constraint,
    /// Pods of each domain, where a domain is more than one node.
    pods: HashMap<&'a str, i64>,
    /// Constraints over few domains would weigh too much otherwise.
    weight: f64,
}

impl<'a> Evenness<'a> {
    /// With `demand`, nodes that lack one of the topologies are left out.
    pub(super) fn new(ask: Ask<'a>, constraints: Vec<Constraint>, demand: bool, feasible: &[&'a NodeInfo]) -> Self {
        let complete = |node: &NodeInfo| !demand || constraints.iter().all(|c| c.domain(node).is_some());
        let left_out: HashSet<&str> = feasible.iter().filter(|node| !complete(node)).map(|node| node.name()).collect();
        let inside: Vec<&&NodeInfo> = feasible.iter().filter(|node| complete(node)).collect();
        let counted: Vec<&'a NodeInfo> =
            ask.snapshot.nodes().iter().map(AsRef::as_ref).filter(|node| complete(node)).collect();
        let weighted = constraints
            .iter()
            .map(|constraint| {
                // A node without the label is a domain of its own name, the empty one.
                let domain = |node: &'a NodeInfo| constraint.domain(node).unwrap_or_default();
                let mut pods: HashMap<&str, i64> = HashMap::new();
                if !constraint.is_by_node() {
                    pods.extend(inside.iter().map(|node| (domain(node), 0)));
                    for node in counted.iter().filter(|node| constraint.includes(ask.pod, node)) {
                        if let Some(pods) = pods.get_mut(domain(node)) {
                            *pods += count(node, ask.pod.namespace(), constraint);
                        }
                    }
                }
                let domains = if constraint.is_by_node() { inside.len() } else { pods.len() };
                Weighted { constraint: constraint.clone(), pods, weight: ((domains + 2) as f64).ln() }
            })
            .collect();
        Self { namespace: ask.pod.namespace(), constraints: weighted, left_out }
    }
}

impl Rate for Evenness<'_> {
    fn rate(&self, node: &NodeInfo) -> i64 {
        if self.left_out.contains(node.name()) {
            return 0;
        }
        let cost = |weighted: &Weighted<'_>| {
            let domain = weighted.constraint.domain(node)?;
            let pods = if weighted.constraint.is_by_node() {
                count(node, self.namespace, &weighted.constraint)
            } else {
                weighted.pods.get(domain).copied().unwrap_or_default()
            };
            Some(pods as f64 * weighted.weight + (weighted.constraint.max_skew - 1) as f64)
        };
        self.constraints.iter().filter_map(cost).sum::<f64>().round() as i64
    }

    fn normalize(&self, nodes: &[&NodeInfo], scores: &mut [i64]) {
        let inside = |node: &NodeInfo| !self.left_out.contains(node.name());
        let counted = || nodes.iter().zip(scores.iter()).filter(|(node, _)| inside(node)).map(|(_, score)| *score);
        let (min, max) = (counted().min().unwrap_or_default(), counted().max().unwrap_or_default());
        for (node, score) in nodes.iter().zip(scores.iter_mut()) {
            *score = match (inside(node), max) {
                (false, _) => 0,
                (true, 0) => MAX_SCORE,
                (true, max) => MAX_SCORE * (max + min - *score) / max,
            };
        }
    }
}
