//! Hard constraints: how many pods each domain has, and whether one more would make it too uneven.

use std::collections::HashMap;

use super::constraint::Constraint;
use super::count;
use crate::framework::{Ask, Check, Rejection};
use crate::model::NodeInfo;

pub(super) struct Skew<'a> {
    constraints: Vec<(Constraint, Domains<'a>)>,
}

struct Domains<'a> {
    pods: HashMap<&'a str, i64>,
    fewest: i64,
    /// Whether the pod itself is one that is counted.
    counts_itself: bool,
}

impl<'a> Skew<'a> {
    pub(super) fn new(ask: Ask<'a>, constraints: Vec<Constraint>) -> Self {
        let mut pods: Vec<HashMap<&'a str, i64>> = vec![HashMap::new(); constraints.len()];
        for node in ask.snapshot.nodes() {
            if !constraints.iter().all(|constraint| constraint.domain(node).is_some()) {
                continue;
            }
            for (constraint, pods) in constraints.iter().zip(&mut pods) {
                if let Some(domain) = constraint.domain(node).filter(|_| constraint.includes(ask.pod, node)) {
                    *pods.entry(domain).or_default() += count(node, ask.pod.namespace(), constraint);
                }
            }
        }
        let with_domains = |(constraint, pods): (Constraint, HashMap<&'a str, i64>)| {
            let few = pods.len() < constraint.min_domains;
            let fewest = if few { 0 } else { pods.values().copied().min().unwrap_or(i64::from(i32::MAX)) };
            let counts_itself = constraint.selector.matches(ask.pod.labels());
            (constraint, Domains { pods, fewest, counts_itself })
        };
        Self { constraints: constraints.into_iter().zip(pods).map(with_domains).collect() }
    }
}

impl Check for Skew<'_> {
    fn check(&self, node: &NodeInfo) -> Result<(), Rejection> {
        const REASON: &str = "node(s) didn't match pod topology spread constraints";
        for (constraint, domains) in &self.constraints {
            let Some(domain) = constraint.domain(node) else {
                return Err(Rejection::lasting(format!("{REASON} (missing required label)")));
            };
            let pods = domains.pods.get(domain).copied().unwrap_or_default();
            if pods + i64::from(domains.counts_itself) - domains.fewest > constraint.max_skew {
                return Err(Rejection::preemptible(REASON));
            }
        }
        Ok(())
    }
}
