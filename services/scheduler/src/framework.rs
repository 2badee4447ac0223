//! What a plugin is. The algorithm knows plugins by these traits only, and a plugin knows nothing of the others.
//!
//! A plugin is asked once per pod to prepare; what it prepares then judges node after node. Preparing is where work
//! that does not depend on the node is done, and where a plugin that has nothing to say about the pod steps out.

use std::collections::BTreeSet;

use trireme_machinery::labels::Selector;

use crate::hints::ClusterEvent;
use crate::model::{NodeInfo, PodInfo};
use crate::snapshot::Snapshot;

/// The most that a score can be.
pub const MAX_SCORE: i64 = 100;

/// A pod that wants a node.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The pod.
    pub pod: &'a PodInfo,
    /// The cluster.
    pub snapshot: &'a Snapshot,
    /// The pods that this one is a replica of: those of its Services and of its controller.
    pub replicas: &'a Selector,
}

/// Why a pod can't run on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// The reasons, as people read them.
    pub reasons: Vec<String>,
    /// Whether it could run there if other pods went.
    pub preemptible: bool,
}

impl Rejection {
    /// No pod that goes would help.
    pub fn lasting(reason: impl Into<String>) -> Self {
        Self { reasons: vec![reason.into()], preemptible: false }
    }

    /// It could run there if other pods went.
    pub fn preemptible(reason: impl Into<String>) -> Self {
        Self { reasons: vec![reason.into()], preemptible: true }
    }
}

/// What a filter has to say about a pod.
pub enum Prepared<'a> {
    /// Nothing: it can run on every node.
    Skip,
    /// It depends on the node.
    Check(Box<dyn Check + 'a>),
    /// It depends on the node, and only these come into question.
    Only(BTreeSet<String>, Box<dyn Check + 'a>),
    /// It can run nowhere.
    Refuse(String),
}

/// Judges nodes for one pod.
pub trait Check {
    /// Whether the pod can run on the node.
    fn check(&self, node: &NodeInfo) -> Result<(), Rejection>;
}

/// Says on which nodes a pod can run.
pub trait Filter: Send + Sync {
    /// The plugin's name, as Kubernetes has it.
    fn name(&self) -> &'static str;

    /// Looks at the pod.
    fn prepare<'a>(&self, ask: Ask<'a>) -> Prepared<'a>;

    /// Whether a pod that this plugin kept off every node may find one after the event.
    fn helps(&self, pod: &PodInfo, event: &ClusterEvent) -> bool;
}

/// Compares nodes for one pod.
pub trait Rate {
    /// How well the node suits, in the plugin's own units.
    fn rate(&self, node: &NodeInfo) -> i64;

    /// Brings the scores of all nodes into 0 to [`MAX_SCORE`].
    fn normalize(&self, _nodes: &[&NodeInfo], _scores: &mut [i64]) {}
}

/// Says which node suits a pod best.
pub trait Score: Send + Sync {
    /// The plugin's name, as Kubernetes has it.
    fn name(&self) -> &'static str;

    /// Looks at the pod and the nodes that it can run on; `None` where no node is better than another.
    fn prepare<'a>(&self, ask: Ask<'a>, feasible: &[&'a NodeInfo]) -> Option<Box<dyn Rate + 'a>>;
}

/// Scales scores so that the highest is [`MAX_SCORE`]; reversed, the highest becomes 0.
pub fn normalize_to_max(scores: &mut [i64], reversed: bool) {
    let max = scores.iter().copied().max().unwrap_or_default();
    for score in scores {
        let scaled = if max == 0 { 0 } else { MAX_SCORE * *score / max };
        *score = if reversed { MAX_SCORE - scaled } else { scaled };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_scaled_to_the_highest() {
        let mut scores = [0, 5, 20];
        normalize_to_max(&mut scores, false);
        assert_eq!(scores, [0, 25, 100]);
        let mut scores = [0, 1, 2];
        normalize_to_max(&mut scores, true);
        assert_eq!(scores, [100, 50, 0]);
        let mut scores = [0, 0];
        normalize_to_max(&mut scores, true);
        assert_eq!(scores, [100, 100]);
    }
}
