//! Preemption: which pods could go so that a more important one fits.
//!
//! For each node that would do without some of its pods: take all less important ones off, see whether the pod fits
//! then, and put back as many as possible, the most important first. Of the nodes, the one whose victims hurt least.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use trireme_machinery::labels::Selector;

use crate::diagnosis::Unschedulable;
use crate::framework::{Ask, Prepared, Rejection};
use crate::model::{NodeInfo, PodInfo};
use crate::plugins::Profile;

/// Pods that want to stay together in some number.
#[derive(Debug, Clone)]
pub struct Budget {
    /// Namespace of the budget and its pods.
    pub namespace: String,
    /// Its pods.
    pub selector: Selector,
    /// How many of them may go.
    pub allowed: i64,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// In words, as the end of the pod's message.
    pub message: String,
    /// Who has to go, if that helps.
    pub victims: Option<Victims>,
}

/// Pods that have to go.
#[derive(Debug, Clone)]
pub struct Victims {
    /// The node that they are on.
    pub node: String,
    /// The pods, the most important first; at least one.
    pub pods: Vec<Arc<PodInfo>>,
    /// How many of them a budget protects.
    violations: usize,
}

/// Looks for pods that could go.
pub fn find(profile: &Profile, ask: Ask<'_>, found: &Unschedulable, budgets: &[Budget]) -> Outcome {
    let told = |message: String| Outcome { message: format!("preemption: {message}"), victims: None };
    if !ask.pod.may_preempt() {
        return told("not eligible due to preemptionPolicy=Never.".to_owned());
    }
    if is_waiting_for_victims(ask, found) {
        return told("not eligible due to a terminating pod on the nominated node.".to_owned());
    }
    let mut candidates = Vec::new();
    let mut failures = BTreeMap::new();
    for (name, rejection) in &found.rejections {
        let Some(node) = ask.snapshot.node(name).filter(|_| rejection.preemptible) else { continue };
        match victims_on(profile, ask, node, budgets) {
            Ok(victims) => candidates.push(victims),
            Err(rejection) => {
                failures.insert(name.clone(), rejection);
            }
        }
    }
    match candidates.into_iter().min_by_key(Victims::harm) {
        Some(victims) => Outcome {
            message: format!(
                "preemption: found a potential placement for pod on node {}, preempting {} victims",
                victims.node,
                victims.pods.len()
            ),
            victims: Some(victims),
        },
        None => {
            let nowhere = Unschedulable {
                nodes: found.nodes,
                rejections: failures,
                absent: Some("Preemption is not helpful for scheduling".to_owned()),
                ..Unschedulable::default()
            };
            told(nowhere.to_string())
        }
    }
}

/// Whether pods are already going for this one.
fn is_waiting_for_victims(ask: Ask<'_>, found: &Unschedulable) -> bool {
    let name = ask.pod.nominated_node();
    let given_up = found.rejections.get(name).is_some_and(|rejection| !rejection.preemptible);
    let Some(node) = ask.snapshot.node(name).filter(|_| !given_up) else { return false };
    node.pods().iter().any(|pod| pod.priority() < ask.pod.priority() && is_preempted(pod))
}

fn is_preempted(pod: &PodInfo) -> bool {
    let conditions = pod.pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    pod.is_terminating()
        && conditions.into_iter().flatten().any(|condition| {
            condition.type_ == "DisruptionTarget"
                && condition.status == "True"
                && condition.reason.as_deref() == Some("PreemptionByScheduler")
        })
}

fn victims_on(profile: &Profile, ask: Ask<'_>, node: &NodeInfo, budgets: &[Budget]) -> Result<Victims, Rejection> {
    let mut lesser: Vec<Arc<PodInfo>> =
        node.pods().iter().filter(|pod| pod.priority() < ask.pod.priority()).cloned().collect();
    if lesser.is_empty() {
        return Err(Rejection::lasting("No preemption victims found for incoming pod"));
    }
    let mut without = node.clone();
    for pod in &lesser {
        without.remove_pod(pod.uid());
    }
    fits(profile, ask, &without)?;
    lesser.sort_by_key(|pod| importance(pod));
    let (protected, free) = by_budget(lesser, budgets);
    let mut victims = Vec::new();
    let mut violations = 0;
    for (pod, is_protected) in
        protected.into_iter().map(|pod| (pod, true)).chain(free.into_iter().map(|pod| (pod, false)))
    {
        let mut with = without.clone();
        with.add_pod(pod.clone());
        if fits(profile, ask, &with).is_ok() {
            without = with;
        } else {
            violations += usize::from(is_protected);
            victims.push(pod);
        }
    }
    victims.sort_by_key(|pod| importance(pod));
    Ok(Victims { node: node.name().to_owned(), pods: victims, violations })
}

/// The more important come first: by priority, then by age.
fn importance(pod: &PodInfo) -> (Reverse<i32>, Option<Timestamp>) {
    (Reverse(pod.priority()), pod.start_time())
}

/// Splits pods into those whose going a budget forbids and the others.
fn by_budget(pods: Vec<Arc<PodInfo>>, budgets: &[Budget]) -> (Vec<Arc<PodInfo>>, Vec<Arc<PodInfo>>) {
    let mut left: Vec<i64> = budgets.iter().map(|budget| budget.allowed).collect();
    pods.into_iter().partition(|pod| {
        let mut violates = false;
        for (budget, left) in budgets.iter().zip(&mut left) {
            let covered = budget.namespace == pod.namespace()
                && !budget.selector.is_empty()
                && budget.selector.matches(pod.labels());
            if covered {
                *left -= 1;
                violates |= *left < 0;
            }
        }
        violates
    })
}

/// Whether the pod could run on the node as it would be.
fn fits(profile: &Profile, ask: Ask<'_>, node: &NodeInfo) -> Result<(), Rejection> {
    let snapshot = ask.snapshot.with_node(node.clone());
    let ask = Ask { snapshot: &snapshot, ..ask };
    for filter in &profile.filters {
        match filter.prepare(ask) {
            Prepared::Skip => {}
            Prepared::Check(check) | Prepared::Only(_, check) => check.check(node)?,
            Prepared::Refuse(why) => return Err(Rejection::lasting(why)),
        }
    }
    Ok(())
}

// === impl Victims ===

impl Victims {
    /// How much it hurts when they go: broken budgets, then the most important victim, then all together, then their
    /// number, then how long they ran.
    fn harm(&self) -> (usize, i32, i64, usize, Reverse<Option<Timestamp>>) {
        let highest = self.pods.first().map_or(i32::MIN, |pod| pod.priority());
        let sum = self.pods.iter().map(|pod| i64::from(pod.priority()) - i64::from(i32::MIN)).sum();
        let oldest = self.pods.iter().filter(|pod| pod.priority() == highest).filter_map(|pod| pod.start_time()).min();
        (self.violations, highest, sum, self.pods.len(), Reverse(oldest))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::algorithm;
    use crate::testing::{NodeBuilder, PodBuilder, node, pod};

    fn preempt(
        nodes: Vec<NodeBuilder>,
        pods: Vec<PodBuilder>,
        wanted: PodBuilder,
        budgets: &[Budget],
    ) -> (String, Vec<String>) {
        let mut cache = crate::cache::Cache::default();
        nodes.into_iter().for_each(|node| cache.set_node(node.build()));
        pods.into_iter().for_each(|pod| cache.set_pod(pod.info()));
        let (snapshot, wanted, replicas) = (cache.snapshot(), wanted.info(), Selector::everything());
        let ask = Ask { pod: &wanted, snapshot: &snapshot, replicas: &replicas };
        let profile = Profile::default();
        let mut nowhere = algorithm::filter(&profile, ask, &mut 0).unwrap_err();
        let outcome = find(&profile, ask, &nowhere, budgets);
        nowhere.preemption = outcome.message;
        let victims = outcome.victims.map_or(Vec::new(), |v| v.pods.iter().map(|pod| pod.name().to_owned()).collect());
        (nowhere.to_string(), victims)
    }

    #[test]
    fn without_lesser_pods_nobody_goes() {
        let (message, victims) = preempt(vec![node("n1")], vec![pod("v").cpu("3").on("n1")], pod("p").cpu("3"), &[]);
        assert_eq!(
            message,
            "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims found \
             for incoming pod."
        );
        assert!(victims.is_empty());
    }

    #[test]
    fn what_no_pod_stands_in_the_way_of_is_not_helped() {
        let selected = pod("p").priority(1000).set(&["spec", "nodeSelector"], json!({"disk": "ssd"}));
        let (message, _) = preempt(vec![node("n1")], vec![pod("v").priority(100).on("n1")], selected, &[]);
        assert_eq!(
            message,
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. preemption: 0/1 nodes are \
             available: 1 Preemption is not helpful for scheduling."
        );
        let (message, _) = preempt(
            vec![node("n1"), node("n2").taint("k", "NoSchedule")],
            vec![],
            pod("p").cpu("9").memory("9Gi"),
            &[],
        );
        assert_eq!(
            message,
            "0/2 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 1 node(s) had untolerated taint(s). \
             preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
        );
    }

    #[test]
    fn the_least_important_and_the_fewest_go() {
        let running = vec![
            pod("a").cpu("2").priority(100).on("n1"),
            pod("b").cpu("2").priority(500).on("n1"),
            pod("c").cpu("4").priority(500).on("n2"),
        ];
        let (message, victims) = preempt(vec![node("n1"), node("n2")], running, pod("p").cpu("2").priority(1000), &[]);
        assert_eq!(victims, ["a"]);
        assert_eq!(
            message,
            "0/2 nodes are available: 2 Insufficient cpu. preemption: found a potential placement for pod on node n1, \
             preempting 1 victims"
        );
    }

    #[test]
    fn budgets_are_kept_where_it_is_possible() {
        let running = || {
            vec![pod("a").label("app", "db").cpu("4").priority(100).on("n1"), pod("b").cpu("4").priority(500).on("n2")]
        };
        let budget =
            Budget { namespace: "default".to_owned(), selector: Selector::parse("app=db").unwrap(), allowed: 0 };
        let wanted = || pod("p").cpu("2").priority(1000);
        let nodes = || vec![node("n1"), node("n2")];
        assert_eq!(preempt(nodes(), running(), wanted(), &[]).1, ["a"]);
        assert_eq!(preempt(nodes(), running(), wanted(), std::slice::from_ref(&budget)).1, ["b"]);
    }

    #[test]
    fn a_pod_that_waits_for_its_victims_takes_no_more() {
        let going = pod("v")
            .cpu("3")
            .priority(1)
            .on("n1")
            .set(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z".into())
            .set(
                &["status", "conditions"],
                json!([{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]),
            );
        let wanted = pod("p").cpu("3").priority(1000).set(&["status", "nominatedNodeName"], "n1".into());
        let (message, victims) = preempt(vec![node("n1")], vec![going], wanted, &[]);
        assert!(victims.is_empty());
        assert_eq!(
            message,
            "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to a terminating pod on the nominated node."
        );
        let modest = pod("p").cpu("3").priority(1000).set(&["spec", "preemptionPolicy"], "Never".into());
        let (message, _) = preempt(vec![node("n1")], vec![pod("v").cpu("3").on("n1")], modest, &[]);
        assert_eq!(
            message,
            "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never."
        );
    }
}
