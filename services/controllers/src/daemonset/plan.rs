//! Which nodes get a pod and which pods go. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetStatus};
use k8s_openapi::api::core::v1::{
    Affinity, Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, PodTemplateSpec, Toleration,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use trireme_client::Object;
use trireme_machinery::int_or_string::IntOrString as Share;

use crate::common::conditions::count;
use crate::common::history::{HASH, hash_of};
use crate::common::taint::{NO_EXECUTE, NO_SCHEDULE, tolerated};
use crate::common::{placement, pods};

/// The label that older versions of pods were known by.
const GENERATION: &str = "pod-template-generation";
const GENERATION_ANNOTATION: &str = "deprecated.daemonset.template.generation";
/// What every pod of a DaemonSet tolerates: it is there for the node's own sake.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", NO_EXECUTE),
    ("node.kubernetes.io/unreachable", NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/unschedulable", NO_SCHEDULE),
];
const NETWORK_UNAVAILABLE: &str = "node.kubernetes.io/network-unavailable";

/// What a round looks at.
pub(super) struct Observed<'a> {
    pub(super) set: &'a DaemonSet,
    pub(super) nodes: &'a [Arc<Node>],
    /// The set's own pods.
    pub(super) pods: &'a [Arc<Pod>],
    /// What pods of the present template are labelled with.
    pub(super) hash: &'a str,
    pub(super) now: Timestamp,
    /// Nodes whose last pod failed a moment ago.
    pub(super) backing_off: &'a (dyn Fn(&str) -> bool + Sync),
}

/// What is to be done.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Names of nodes.
    pub(super) create: Vec<String>,
    pub(super) delete: Vec<Arc<Pod>>,
    /// Pods that ended, with their node: they are among those to delete, and people are told.
    pub(super) ended: Vec<(Arc<Pod>, String)>,
}

fn spec(set: &DaemonSet) -> PodSpec {
    set.spec.template.spec.clone().unwrap_or_default()
}

fn min_ready(set: &DaemonSet) -> i32 {
    set.spec.min_ready_seconds.unwrap_or(0)
}

fn tolerations(spec: &PodSpec) -> Vec<Toleration> {
    let mut all = spec.tolerations.clone().unwrap_or_default();
    let network = spec.host_network.unwrap_or(false).then_some((NETWORK_UNAVAILABLE, NO_SCHEDULE));
    for (key, effect) in TOLERATED.into_iter().chain(network) {
        let toleration = Toleration {
            key: Some(key.to_owned()),
            operator: Some("Exists".to_owned()),
            effect: Some(effect.to_owned()),
            ..Toleration::default()
        };
        let same = |t: &Toleration| t.key == toleration.key && t.effect == toleration.effect;
        match all.iter_mut().find(|t| same(t)) {
            Some(known) => *known = toleration,
            None => all.push(toleration),
        }
    }
    all
}

/// Whether a pod should be made on the node, and whether one that runs there may go on.
fn wanted(spec: &PodSpec, tolerations: &[Toleration], node: &Node) -> (bool, bool) {
    let named = spec.node_name.as_deref().filter(|n| !n.is_empty());
    if named.is_some_and(|n| Some(n) != node.metadata.name.as_deref()) || !placement::fits(spec, node) {
        return (false, false);
    }
    let taints = node.spec.as_ref().and_then(|s| s.taints.clone()).unwrap_or_default();
    let refused = |effect: &str| taints.iter().any(|t| t.effect == effect && !tolerated(tolerations, t));
    (!refused(NO_SCHEDULE) && !refused(NO_EXECUTE), !refused(NO_EXECUTE))
}

/// The node a pod is on or is meant for.
fn target(pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    if let Some(node) = spec.node_name.clone().filter(|n| !n.is_empty()) {
        return Some(node);
    }
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let terms = &affinity.required_during_scheduling_ignored_during_execution.as_ref()?.node_selector_terms;
    let fields = terms.iter().flat_map(|t| t.match_fields.iter().flatten());
    fields.filter(|f| f.key == "metadata.name").find_map(|f| f.values.as_ref()?.first().cloned())
}

type ByNode = BTreeMap<String, Vec<Arc<Pod>>>;

/// The pods of each node, those that were placed before those that were not, oldest first.
fn by_node(all: &[Arc<Pod>]) -> ByNode {
    let mut nodes: ByNode = BTreeMap::new();
    for pod in all.iter().filter(|p| !(pods::is_finished(p) && p.is_deleting())) {
        if let Some(node) = target(pod) {
            nodes.entry(node).or_default().push(pod.clone());
        }
    }
    let placed = |pod: &Pod| pod.spec.as_ref().and_then(|s| s.node_name.as_ref()).is_some();
    for pods in nodes.values_mut() {
        pods.sort_by_key(|p| (!placed(p), p.metadata.creation_timestamp.as_ref().map(|t| t.0), p.key()));
    }
    nodes
}

fn generation(set: &DaemonSet) -> Option<&str> {
    let annotation = set.metadata.annotations.as_ref().and_then(|a| a.get(GENERATION_ANNOTATION));
    annotation.map(String::as_str).filter(|g| g.parse::<i64>().is_ok())
}

fn is_updated(set: &DaemonSet, pod: &Pod, hash: &str) -> bool {
    let label = pod.metadata.labels.as_ref().and_then(|l| l.get(GENERATION)).map(String::as_str);
    hash_of(&pod.metadata) == hash || (label.is_some() && label == generation(set))
}

fn share(value: Option<&IntOrString>, total: usize) -> usize {
    let total = i32::try_from(total).unwrap_or(i32::MAX);
    let share = match value {
        Some(IntOrString::Int(number)) => Share::Int(*number),
        Some(IntOrString::String(text)) => Share::String(text.clone()),
        None => return 0,
    };
    usize::try_from(share.scaled(total, true).unwrap_or(0)).unwrap_or(0)
}

/// (surge, unavailable) of a rolling update over so many nodes.
fn fences(set: &DaemonSet, nodes: usize) -> (usize, usize) {
    let rolling = set.spec.update_strategy.as_ref().and_then(|s| s.rolling_update.as_ref());
    let surge = share(rolling.and_then(|r| r.max_surge.as_ref()), nodes);
    let unavailable = share(rolling.and_then(|r| r.max_unavailable.as_ref()), nodes);
    if nodes > 0 && surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) }
}

fn is_rolling(set: &DaemonSet) -> bool {
    let strategy = set.spec.update_strategy.as_ref().and_then(|s| s.type_.as_deref());
    strategy.is_none_or(|s| s == "RollingUpdate")
}

/// Plans a round: first the right pods on the right nodes, then, if nothing is left of that, the update.
pub(super) fn plan(observed: &Observed<'_>) -> Plan {
    if observed.set.is_deleting() {
        return Plan::default();
    }
    let mut plan = place(observed);
    if plan.create.is_empty() && plan.delete.is_empty() && is_rolling(observed.set) {
        update(observed, &mut plan);
    }
    plan
}

fn place(observed: &Observed<'_>) -> Plan {
    let mut plan = Plan::default();
    let spec = spec(observed.set);
    let tolerations = tolerations(&spec);
    let mut nodes = by_node(observed.pods);
    let surges = is_rolling(observed.set) && fences(observed.set, 1).0 > 0;
    for node in observed.nodes {
        let name = node.key().name;
        let found = nodes.remove(&name);
        let (make, keep) = wanted(&spec, &tolerations, node);
        let Some(found) = found else {
            if make {
                plan.create.push(name);
            }
            continue;
        };
        if !keep {
            plan.delete.extend(found.into_iter().filter(|p| !p.is_deleting()));
            continue;
        }
        let mut running = Vec::new();
        for pod in found.into_iter().filter(|p| !p.is_deleting()) {
            if !pods::is_finished(&pod) {
                running.push(pod);
            } else if pods::phase(&pod) == "Succeeded" || !(observed.backing_off)(&name) {
                plan.ended.push((pod.clone(), name.clone()));
                plan.delete.push(pod);
            }
        }
        if surges {
            place_surging(observed, &mut plan, running, make, name);
        } else {
            plan.delete.extend(running.into_iter().skip(1));
        }
    }
    // Pods meant for nodes that are gone will never be placed.
    let unplaced = |p: &Arc<Pod>| p.spec.as_ref().is_some_and(|s| s.node_name.is_none()) && !p.is_deleting();
    plan.delete.extend(nodes.into_values().flatten().filter(unplaced));
    plan
}

/// While surging a node may have an old and a new pod: the old one goes when the new one is available.
fn place_surging(observed: &Observed<'_>, plan: &mut Plan, running: Vec<Arc<Pod>>, make: bool, node: String) {
    if running.is_empty() && make {
        plan.create.push(node);
    }
    if running.len() < 2 {
        return;
    }
    let (mut new, mut old): (Vec<_>, Vec<_>) = running.into_iter().partition(|p| hash_of(&p.metadata) == observed.hash);
    plan.delete.extend(new.drain(1.min(new.len())..).chain(old.drain(1.min(old.len())..)));
    if let (Some(new), Some(old)) = (new.pop(), old.pop())
        && (!pods::is_ready(&old) || pods::is_available(&new, min_ready(observed.set), observed.now))
    {
        plan.delete.push(old);
    }
}

fn update(observed: &Observed<'_>, plan: &mut Plan) {
    let set = observed.set;
    let spec = spec(set);
    let tolerations = tolerations(&spec);
    let eligible: BTreeMap<String, bool> =
        observed.nodes.iter().map(|n| (n.key().name, wanted(&spec, &tolerations, n).0)).collect();
    let desired = eligible.values().filter(|e| **e).count();
    let (surge, unavailable) = fences(set, desired);
    let available = |pod: &Pod| pods::is_available(pod, min_ready(set), observed.now);
    let mut nodes = by_node(observed.pods);
    for (name, _) in eligible.iter().filter(|(_, eligible)| **eligible) {
        nodes.entry(name.clone()).or_default();
    }

    let (mut free, mut candidates, mut new_nodes) = (Vec::new(), Vec::new(), Vec::new());
    let (mut missing, mut surging) = (0, 0);
    for (name, found) in &nodes {
        let (new, old): (Vec<_>, Vec<_>) =
            found.iter().filter(|p| !p.is_deleting()).partition(|p| is_updated(set, p, observed.hash));
        match (new.as_slice(), old.as_slice()) {
            ([], [old]) if !available(old) => {
                missing += 1;
                if surge > 0 && eligible.get(name) == Some(&true) {
                    plan.create.push(name.clone());
                } else {
                    free.push((*old).clone());
                }
            }
            ([], [old]) => {
                candidates.push((*old).clone());
                new_nodes.push(name.clone());
            }
            ([new], []) => missing += usize::from(!available(new)),
            ([new], [old]) if surge > 0 => {
                if available(new) {
                    free.push((*old).clone())
                } else {
                    surging += 1
                }
            }
            _ => {
                missing += 1;
                surging += 1;
            }
        }
    }
    plan.delete.extend(free);
    if surge > 0 {
        plan.create.extend(new_nodes.into_iter().take(surge.saturating_sub(surging)));
    } else {
        plan.delete.extend(candidates.into_iter().take(unavailable.saturating_sub(missing)));
    }
}

/// The pod of a node.
pub(super) fn template_for(set: &DaemonSet, hash: &str, node: &str) -> PodTemplateSpec {
    let mut template = set.spec.template.clone();
    let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
    labels.insert(HASH.to_owned(), hash.to_owned());
    if let Some(generation) = generation(set) {
        labels.insert(GENERATION.to_owned(), generation.to_owned());
    }
    let spec = template.spec.get_or_insert_default();
    spec.tolerations = Some(tolerations(spec));
    let name = NodeSelectorRequirement {
        key: "metadata.name".to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![node.to_owned()]),
    };
    // What the template asks of nodes was looked at already; the rest of its affinity stays.
    let affinity: &mut Affinity = spec.affinity.get_or_insert_default();
    affinity.node_affinity.get_or_insert_default().required_during_scheduling_ignored_during_execution =
        Some(NodeSelector {
            node_selector_terms: vec![NodeSelectorTerm { match_expressions: None, match_fields: Some(vec![name]) }],
        });
    template
}

/// The status that the set should have; `None`: it has it.
pub(super) fn status(observed: &Observed<'_>) -> Option<DaemonSetStatus> {
    let set = observed.set;
    let spec = spec(set);
    let tolerations = tolerations(&spec);
    let nodes = by_node(observed.pods);
    let old = set.status.clone().unwrap_or_default();
    let (mut desired, mut current, mut misscheduled, mut ready, mut updated, mut available) = (0, 0, 0, 0, 0, 0);
    for node in observed.nodes {
        let pod = nodes.get(&node.key().name).and_then(|pods| pods.first());
        match (wanted(&spec, &tolerations, node).0, pod) {
            (true, found) => {
                desired += 1;
                let Some(pod) = found else { continue };
                current += 1;
                ready += i32::from(pods::is_ready(pod));
                available += i32::from(pods::is_available(pod, min_ready(set), observed.now));
                updated += i32::from(is_updated(set, pod, observed.hash));
            }
            (false, Some(_)) => misscheduled += 1,
            (false, None) => {}
        }
    }
    let status = DaemonSetStatus {
        desired_number_scheduled: desired,
        current_number_scheduled: current,
        number_misscheduled: misscheduled,
        number_ready: ready,
        updated_number_scheduled: count(updated),
        number_available: count(available),
        number_unavailable: count(desired - available),
        observed_generation: set.metadata.generation,
        collision_count: old.collision_count,
        conditions: old.conditions.clone(),
    };
    let zero = |s: &DaemonSetStatus| DaemonSetStatus {
        updated_number_scheduled: Some(s.updated_number_scheduled.unwrap_or(0)),
        number_available: Some(s.number_available.unwrap_or(0)),
        number_unavailable: Some(s.number_unavailable.unwrap_or(0)),
        ..s.clone()
    };
    (zero(&old) != zero(&status)).then_some(status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn set(strategy: Value) -> DaemonSet {
        serde_json::from_value(json!({
            "metadata": {"name": "d", "uid": "u", "generation": 1},
            "spec": {"selector": {"matchLabels": {"app": "d"}}, "updateStrategy": strategy,
                "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [], "nodeSelector": {"disk": "ssd"}}}},
        }))
        .unwrap()
    }

    fn rolling() -> DaemonSet {
        set(json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}))
    }

    fn node(name: &str, disk: &str, taints: Value) -> Arc<Node> {
        Arc::new(
            serde_json::from_value(
                json!({"metadata": {"name": name, "labels": {"disk": disk}}, "spec": {"taints": taints}}),
            )
            .unwrap(),
        )
    }

    fn pod(name: &str, node: &str, hash: &str, phase: &str) -> Arc<Pod> {
        let ready = if phase == "Running" { "True" } else { "False" };
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": name, "uid": name, "labels": {"app": "d", HASH: hash}},
                "spec": {"nodeName": node, "containers": []},
                "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]},
            }))
            .unwrap(),
        )
    }

    fn run(set: &DaemonSet, nodes: &[Arc<Node>], pods: &[Arc<Pod>]) -> (Vec<String>, Vec<String>) {
        let observed = Observed { set, nodes, pods, hash: "new", now: Timestamp::UNIX_EPOCH, backing_off: &|_| false };
        let plan = plan(&observed);
        (plan.create, plan.delete.iter().map(|p| p.key().name).collect())
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|n| (*n).to_owned()).collect()
    }

    #[test]
    fn a_pod_on_every_node_that_fits() {
        let nodes = [
            node("a", "ssd", json!([])),
            node("b", "hdd", json!([])),
            node("c", "ssd", json!([{"key": "x", "effect": "NoSchedule"}])),
            node("d", "ssd", json!([{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}])),
        ];
        assert_eq!(run(&rolling(), &nodes, &[]), (names(&["a", "d"]), vec![]));
        // One that runs on a node that got a taint goes on; one on a node that does not fit any more goes.
        let pods = [pod("on-b", "b", "new", "Running"), pod("on-c", "c", "new", "Running")];
        assert_eq!(run(&rolling(), &nodes, &pods), (names(&["a", "d"]), names(&["on-b"])));
    }

    #[test]
    fn ended_and_doubled_pods_go() {
        let nodes = [node("a", "ssd", json!([])), node("b", "ssd", json!([]))];
        let pods =
            [pod("failed", "a", "new", "Failed"), pod("one", "b", "new", "Running"), pod("two", "b", "new", "Running")];
        assert_eq!(run(&rolling(), &nodes, &pods).1, names(&["failed", "two"]));
    }

    #[test]
    fn an_update_takes_one_node_after_another() {
        let nodes = ["a", "b", "c"].map(|n| node(n, "ssd", json!([])));
        let old = ["a", "b", "c"].map(|n| pod(n, n, "old", "Running"));
        assert_eq!(run(&rolling(), &nodes, &old), (vec![], names(&["a"])));
        let begun = [pod("a2", "a", "new", "Pending"), old[1].clone(), old[2].clone()];
        assert_eq!(run(&rolling(), &nodes, &begun), (vec![], vec![]));
        let broken = [old[0].clone(), pod("b", "b", "old", "Pending"), old[2].clone()];
        assert_eq!(run(&rolling(), &nodes, &broken).1, names(&["b"]));
        assert_eq!(run(&set(json!({"type": "OnDelete"})), &nodes, &old), (vec![], vec![]));
    }

    #[test]
    fn a_surge_makes_the_new_pod_first() {
        let surging = set(json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}));
        let nodes = ["a", "b"].map(|n| node(n, "ssd", json!([])));
        let old = ["a", "b"].map(|n| pod(n, n, "old", "Running"));
        assert_eq!(run(&surging, &nodes, &old), (names(&["a"]), vec![]));
        let both = [old[0].clone(), old[1].clone(), pod("a2", "a", "new", "Running")];
        assert_eq!(run(&surging, &nodes, &both).1, names(&["a"]));
    }

    #[test]
    fn a_pod_is_meant_for_its_node() {
        let template = template_for(&rolling(), "h", "n1");
        let spec = template.spec.unwrap();
        assert_eq!(spec.tolerations.as_ref().unwrap().len(), 6);
        let pod = Pod { spec: Some(spec), ..Pod::default() };
        assert_eq!(target(&pod).as_deref(), Some("n1"));
    }
}
