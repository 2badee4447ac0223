//! Resources of a node: a pod needs room (NodeResourcesFit), rather where most is free (LeastAllocated), and rather
//! where CPU and memory are used evenly (NodeResourcesBalancedAllocation).

use crate::framework::{Ask, Check, Filter, MAX_SCORE, Prepared, Rate, Rejection, Score};
use crate::hints::ClusterEvent;
use crate::model::{NodeInfo, PodInfo, Resources, taints};

/// A pod needs room, and rather where most is free.
pub(crate) struct Fit;

/// A pod runs rather where CPU and memory are used evenly.
pub(crate) struct BalancedAllocation;

struct Room<'a>(&'a Resources);

struct LeastAllocated<'a>(&'a Resources);

struct Balanced<'a>(&'a Resources);

impl Filter for Fit {
    fn name(&self) -> &'static str {
        "NodeResourcesFit"
    }

    fn prepare<'a>(&self, ask: Ask<'a>) -> Prepared<'a> {
        Prepared::Check(Box::new(Room(&ask.pod.requests)))
    }

    fn helps(&self, pod: &PodInfo, event: &ClusterEvent) -> bool {
        match event {
            ClusterEvent::PodGone { node, .. } => node.as_ref().is_none_or(|node| could_ever_run(pod, node)),
            ClusterEvent::PodChanged { old, new } => asks_for_less(&pod.requests, &old.requests, &new.requests),
            ClusterEvent::PodItself { old, new } => old.requests != new.requests,
            ClusterEvent::Node { old, new } => {
                Room(&pod.requests).check(new).is_ok()
                    && old.as_ref().is_none_or(|old| has_more(&pod.requests, old, new))
            }
            _ => false,
        }
    }
}

/// Whether a pod could run on the node if it were empty: else no pod that goes there helps.
fn could_ever_run(pod: &PodInfo, node: &NodeInfo) -> bool {
    pod.node_affinity.allows(node)
        && taints::first_untolerated(node.taints(), pod.tolerations()).is_none()
        && Room(&pod.requests).check(&NodeInfo::new(node.node.clone())).is_ok()
}

/// Whether a pod gave up some of what another one needs.
fn asks_for_less(needed: &Resources, old: &Resources, new: &Resources) -> bool {
    (needed.milli_cpu > 0 && old.milli_cpu > new.milli_cpu)
        || (needed.memory > 0 && old.memory > new.memory)
        || (needed.ephemeral_storage > 0 && old.ephemeral_storage > new.ephemeral_storage)
        || needed.scalars.iter().any(|(name, needed)| *needed > 0 && old.scalar(name) > new.scalar(name))
}

/// Whether a node has more of what a pod needs than before.
fn has_more(needed: &Resources, old: &NodeInfo, new: &NodeInfo) -> bool {
    new.allowed_pods > old.allowed_pods || asks_for_less(needed, &new.allocatable, &old.allocatable)
}

impl Check for Room<'_> {
    fn check(&self, node: &NodeInfo) -> Result<(), Rejection> {
        let mut reasons = Vec::new();
        let mut preemptible = true;
        if node.pods().len() as i64 + 1 > node.allowed_pods {
            reasons.push("Too many pods".to_owned());
        }
        let (has, used) = (&node.allocatable, node.requested());
        let mut need = |name: &str, asked: i64, has: i64, used: i64| {
            if asked > 0 && asked > has - used {
                reasons.push(format!("Insufficient {name}"));
                preemptible &= asked <= has;
            }
        };
        need("cpu", self.0.milli_cpu, has.milli_cpu, used.milli_cpu);
        need("memory", self.0.memory, has.memory, used.memory);
        need("ephemeral-storage", self.0.ephemeral_storage, has.ephemeral_storage, used.ephemeral_storage);
        for (name, asked) in &self.0.scalars {
            need(name, *asked, has.scalar(name), used.scalar(name));
        }
        if reasons.is_empty() { Ok(()) } else { Err(Rejection { reasons, preemptible }) }
    }
}

impl Score for Fit {
    fn name(&self) -> &'static str {
        "NodeResourcesFit"
    }

    fn prepare<'a>(&self, ask: Ask<'a>, _: &[&'a NodeInfo]) -> Option<Box<dyn Rate + 'a>> {
        Some(Box::new(LeastAllocated(&ask.pod.scoring_requests)))
    }
}

impl Rate for LeastAllocated<'_> {
    fn rate(&self, node: &NodeInfo) -> i64 {
        let used = node.scoring_requested();
        let free = |has: i64, used: i64, asked: i64| {
            (has != 0).then(|| if used + asked > has { 0 } else { (has - used - asked) * MAX_SCORE / has })
        };
        let shares = [
            free(node.allocatable.milli_cpu, used.milli_cpu, self.0.milli_cpu),
            free(node.allocatable.memory, used.memory, self.0.memory),
        ];
        let counted: Vec<i64> = shares.into_iter().flatten().collect();
        if counted.is_empty() { 0 } else { counted.iter().sum::<i64>() / counted.len() as i64 }
    }
}

impl Score for BalancedAllocation {
    fn name(&self) -> &'static str {
        "NodeResourcesBalancedAllocation"
    }

    fn prepare<'a>(&self, ask: Ask<'a>, _: &[&'a NodeInfo]) -> Option<Box<dyn Rate + 'a>> {
        let asked = &ask.pod.requests;
        (asked.milli_cpu != 0 || asked.memory != 0).then(|| Box::new(Balanced(asked)) as Box<dyn Rate>)
    }
}

impl Rate for Balanced<'_> {
    fn rate(&self, node: &NodeInfo) -> i64 {
        let used = node.requested();
        let with = evenness(node, used.milli_cpu + self.0.milli_cpu, used.memory + self.0.memory);
        let without = evenness(node, used.milli_cpu, used.memory);
        MAX_SCORE / 2 + (MAX_SCORE / 2 + with - without) / 2
    }
}

/// How evenly CPU and memory are used: the spread of the two shares, turned round.
fn evenness(node: &NodeInfo, milli_cpu: i64, memory: i64) -> i64 {
    let share = |used: i64, has: i64| (has != 0).then(|| (used as f64 / has as f64).min(1.0));
    let spread = match (share(milli_cpu, node.allocatable.milli_cpu), share(memory, node.allocatable.memory)) {
        (Some(cpu), Some(memory)) => ((cpu - memory) / 2.0).abs(),
        _ => 0.0,
    };
    ((1.0 - spread) * MAX_SCORE as f64) as i64
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trireme_machinery::labels::Selector;

    use super::*;
    use crate::plugins::testing::{cluster, judge, rate};
    use crate::testing::{node, pod};

    #[test]
    fn what_is_missing_is_named_and_whether_it_could_be_freed() {
        let snapshot = cluster(
            vec![
                node("a").size("4", "8Gi"),
                node("b").size("1", "1Gi"),
                node("c").set(&["status", "allocatable", "pods"], json!("1")),
            ],
            vec![pod("x").cpu("3").on("a"), pod("y").on("c")],
        );
        let judged = judge(&Fit, &pod("p").cpu("2").memory("2Gi").info(), &snapshot);
        let rejection = |reasons: &[&str], preemptible| {
            Err(Rejection { reasons: reasons.iter().map(|r| (*r).to_owned()).collect(), preemptible })
        };
        assert_eq!(
            judged,
            [
                rejection(&["Insufficient cpu"], true),
                rejection(&["Insufficient cpu", "Insufficient memory"], false),
                rejection(&["Too many pods"], true),
            ]
        );
        let gpu = judge(&Fit, &pod("p").request("example.com/gpu", "1").info(), &snapshot);
        assert_eq!(gpu[0], rejection(&["Insufficient example.com/gpu"], false));
    }

    #[test]
    fn the_emptier_and_the_more_even_node_score_higher() {
        let everything = Selector::everything();
        let snapshot = cluster(vec![node("a"), node("b")], vec![pod("x").cpu("2").memory("4Gi").on("a")]);
        assert_eq!(rate(&Fit, &pod("p").cpu("1").memory("2Gi").info(), &snapshot, &everything), Some(vec![25, 75]));
        // 200 MiB and 100 millis stand for a container that asks for nothing.
        assert_eq!(rate(&Fit, &pod("p").info(), &snapshot, &everything), Some(vec![47, 97]));
        let snapshot =
            cluster(vec![node("a"), node("b")], vec![pod("x").cpu("3").on("a"), pod("y").memory("6Gi").on("b")]);
        let scores = rate(&BalancedAllocation, &pod("p").cpu("1").info(), &snapshot, &everything).unwrap();
        assert!(scores[1] > scores[0], "{scores:?}");
        assert_eq!(rate(&BalancedAllocation, &pod("p").info(), &snapshot, &everything), None);
    }

    #[test]
    fn a_node_that_grew_or_a_pod_that_went_helps() {
        let waiting = pod("p").cpu("2").info();
        let at = |cpu: &str| std::sync::Arc::new(NodeInfo::new(node("a").size(cpu, "1Gi").build()));
        let grew = |old: &str, new: &str| ClusterEvent::Node { old: Some(at(old)), new: at(new) };
        assert!(Fit.helps(&waiting, &grew("1", "2")));
        assert!(!Fit.helps(&waiting, &grew("2", "2")));
        assert!(!Fit.helps(&waiting, &grew("1", "1500m")));
        let went = |node| ClusterEvent::PodGone { pod: pod("q").on("a").info(), node };
        assert!(Fit.helps(&waiting, &went(None)));
        assert!(Fit.helps(&waiting, &went(Some(at("2")))));
        assert!(!Fit.helps(&waiting, &went(Some(at("1")))));
    }
}
