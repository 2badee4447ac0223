//! Finding a node for a pod: filter, then score, then take the best.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rand::Rng;

use crate::diagnosis::Unschedulable;
use crate::framework::{Ask, Check, Prepared, Rejection};
use crate::model::NodeInfo;
use crate::plugins::Profile;

/// Clusters of fewer nodes are searched whole.
const FEW_NODES: usize = 100;

/// Chooses among nodes that are equally good.
pub trait TieBreak: Send {
    /// A number below `count`.
    fn pick(&mut self, count: usize) -> usize;
}

/// Chooses at random.
#[derive(Debug, Default)]
pub struct AtRandom;

/// Chooses the first; for tests.
#[derive(Debug, Default)]
pub struct First;

impl TieBreak for AtRandom {
    fn pick(&mut self, count: usize) -> usize {
        rand::rng().random_range(0..count.max(1))
    }
}

impl TieBreak for First {
    fn pick(&mut self, _: usize) -> usize {
        0
    }
}

/// The nodes that a pod can run on.
#[derive(Debug)]
pub struct Feasible<'a> {
    /// The nodes; never empty.
    pub nodes: Vec<&'a NodeInfo>,
    /// How many nodes were looked at.
    pub evaluated: usize,
}

/// Finds the nodes that the pod can run on. `start` is the node that the search begins with; where a cluster is so large
/// that only a part is searched, it moves on, so that all nodes get their turn.
pub fn filter<'a>(profile: &Profile, ask: Ask<'a>, start: &mut usize) -> Result<Feasible<'a>, Box<Unschedulable>> {
    let all = ask.snapshot.nodes();
    let mut checks: Vec<(&'static str, Box<dyn Check + 'a>)> = Vec::new();
    let mut only: Option<BTreeSet<String>> = None;
    let mut narrowing = Vec::new();
    for filter in &profile.filters {
        match filter.prepare(ask) {
            Prepared::Skip => {}
            Prepared::Check(check) => checks.push((filter.name(), check)),
            Prepared::Only(names, check) => {
                narrowing.push(filter.name());
                only = Some(match only {
                    None => names,
                    Some(before) => &before & &names,
                });
                checks.push((filter.name(), check));
            }
            Prepared::Refuse(why) => return Err(Box::new(Unschedulable::refused(all.len(), why, filter.name()))),
        }
    }
    let candidates: Vec<&Arc<NodeInfo>> =
        all.iter().filter(|node| only.as_ref().is_none_or(|names| names.contains(node.name()))).collect();
    let enough = enough_nodes(candidates.len());
    let mut feasible = Vec::new();
    let mut rejected: BTreeMap<String, (&'static str, Rejection)> = BTreeMap::new();
    let offset = *start;
    let mut evaluated = 0;
    for i in 0..candidates.len() {
        let node = candidates[(offset + i) % candidates.len()];
        evaluated += 1;
        let judged =
            checks.iter().try_for_each(|(name, check)| check.check(node).map_err(|rejection| (*name, rejection)));
        match judged {
            Ok(()) => feasible.push(node.as_ref()),
            Err(rejection) => {
                rejected.insert(node.name().to_owned(), rejection);
            }
        }
        if feasible.len() >= enough {
            break;
        }
    }
    *start = if candidates.is_empty() { 0 } else { (offset + evaluated) % candidates.len() };
    if feasible.is_empty() {
        return Err(Box::new(Unschedulable::nowhere(all.len(), rejected, &narrowing)));
    }
    Ok(Feasible { nodes: feasible, evaluated })
}

/// Takes the best of the nodes.
pub fn score<'a>(profile: &Profile, ask: Ask<'a>, feasible: &[&'a NodeInfo], ties: &mut dyn TieBreak) -> &'a NodeInfo {
    let totals = totals(profile, ask, feasible);
    let best = totals.iter().copied().max().unwrap_or_default();
    let equal: Vec<&NodeInfo> =
        feasible.iter().zip(&totals).filter(|(_, total)| **total == best).map(|(node, _)| *node).collect();
    equal[ties.pick(equal.len()).min(equal.len() - 1)]
}

/// The weighted sums of the scores.
pub fn totals<'a>(profile: &Profile, ask: Ask<'a>, feasible: &[&'a NodeInfo]) -> Vec<i64> {
    let mut totals = vec![0; feasible.len()];
    if feasible.len() < 2 {
        return totals;
    }
    for (weight, plugin) in &profile.scores {
        let Some(rate) = plugin.prepare(ask, feasible) else { continue };
        let mut scores: Vec<i64> = feasible.iter().map(|node| rate.rate(node)).collect();
        rate.normalize(feasible, &mut scores);
        totals.iter_mut().zip(&scores).for_each(|(total, score)| *total += weight * score);
    }
    totals
}

/// How many nodes are enough to choose from: all of a small cluster, a part of a large one.
fn enough_nodes(count: usize) -> usize {
    if count < FEW_NODES {
        return count.max(1);
    }
    let percent = 50usize.saturating_sub(count / 125).max(5);
    (count * percent / 100).max(FEW_NODES)
}

#[cfg(test)]
mod tests {
    use trireme_machinery::labels::Selector;

    use super::*;
    use crate::testing::{NodeBuilder, PodBuilder, node, pod};

    fn place(nodes: Vec<NodeBuilder>, pods: Vec<PodBuilder>, wanted: PodBuilder) -> Result<String, String> {
        let mut cache = crate::cache::Cache::default();
        nodes.into_iter().for_each(|node| cache.set_node(node.build()));
        pods.into_iter().for_each(|pod| cache.set_pod(pod.info()));
        let (snapshot, wanted, replicas) = (cache.snapshot(), wanted.info(), Selector::everything());
        let ask = Ask { pod: &wanted, snapshot: &snapshot, replicas: &replicas };
        let profile = Profile::default();
        match filter(&profile, ask, &mut 0) {
            Ok(feasible) => Ok(score(&profile, ask, &feasible.nodes, &mut First).name().to_owned()),
            Err(nowhere) => Err(nowhere.to_string()),
        }
    }

    #[test]
    fn the_emptier_node_is_taken() {
        let placed = place(vec![node("a"), node("b")], vec![pod("x").cpu("2").on("a")], pod("p").cpu("1"));
        assert_eq!(placed.as_deref(), Ok("b"));
    }

    #[test]
    fn soft_taints_outweigh_emptiness() {
        let nodes = vec![node("a"), node("b").taint("k", "PreferNoSchedule")];
        let placed = place(nodes, vec![pod("x").cpu("1").on("a")], pod("p").cpu("1"));
        assert_eq!(placed.as_deref(), Ok("a"));
    }

    #[test]
    fn the_sentence_counts_the_reasons() {
        let nodes = vec![node("a").taint("k", "NoSchedule"), node("b"), node("c")];
        let full = vec![pod("x").cpu("4").on("b"), pod("y").cpu("4").on("c")];
        assert_eq!(
            place(nodes, full, pod("p").cpu("1")).unwrap_err(),
            "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu."
        );
        assert_eq!(place(vec![], vec![], pod("p")).unwrap_err(), "no nodes available to schedule pods");
    }

    #[test]
    fn large_clusters_are_searched_in_parts() {
        assert_eq!(enough_nodes(99), 99);
        assert_eq!(enough_nodes(100), 100);
        assert_eq!(enough_nodes(1000), 420);
        assert_eq!(enough_nodes(10_000), 500);
        assert_eq!(enough_nodes(0), 1);
    }
}
