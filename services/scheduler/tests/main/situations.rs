//! What real Kubernetes made of situations (nodes, pods, and what happens to them), and what the core makes of them.
//!
//! The situations lie in the golden record (`$TRIREME_GOLDEN`, else `../shared/golden` beside the checkout). Here they are
//! played without a cluster: cache, queue and algorithm are real, the world around them is a few lines. Those that
//! need volumes or other controllers are left to the tests of the whole.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};
use tokio::time::Instant;
use trireme_client::Wakes;
use trireme_machinery::labels::Selector;
use trireme_machinery::{meta, patch, tree};
use trireme_scheduler::algorithm::{self, First};
use trireme_scheduler::cache::Cache;
use trireme_scheduler::framework::Ask;
use trireme_scheduler::hints::ClusterEvent;
use trireme_scheduler::model::PodInfo;
use trireme_scheduler::plugins::Profile;
use trireme_scheduler::preemption::{self, Budget};
use trireme_scheduler::queue::Queue;

const NAMESPACE: &str = "sit";

/// Situations about other things than the placing of pods.
const ELSEWHERE: [&str; 3] =
    ["scheduler-default-priority", "scheduler-unknown-scheduler", "scheduler-create-on-tainted"];

/// How many situations can be played. It only grows.
const FLOOR: usize = 41;

/// The golden record; without it the test is skipped, unless one was named.
fn golden() -> Option<PathBuf> {
    let named = std::env::var_os("TRIREME_GOLDEN").map(PathBuf::from);
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/golden");
    let folder = named.clone().unwrap_or_else(beside);
    assert!(folder.is_dir() || named.is_none(), "no golden record at {}", folder.display());
    folder.is_dir().then_some(folder)
}

#[test]
fn pods_are_placed_as_kubernetes_places_them() {
    let Some(golden) = golden() else {
        println!("skipped: no golden record (set TRIREME_GOLDEN)");
        return;
    };
    let files = std::fs::read_dir(golden.join("situations/cases")).unwrap();
    let mut paths: Vec<PathBuf> = files.filter_map(|file| Some(file.ok()?.path())).collect();
    paths.sort();
    let (mut played, mut wrong) = (0, Vec::new());
    for path in paths
        .iter()
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("scheduler-")))
    {
        let text = std::fs::read_to_string(path).unwrap().replace("${ns}", NAMESPACE);
        let case: Value = serde_json::from_str(&text).unwrap();
        if ELSEWHERE.contains(&tree::text(&case, &["id"])) {
            continue;
        }
        let Some(world) = World::play(&case) else { continue };
        played += 1;
        wrong.extend(world.differences(&case));
    }
    println!("{played} situations");
    assert!(wrong.is_empty(), "of {played} situations:\n{}", wrong.join("\n"));
    assert!(played >= FLOOR, "only {played} situations could be played");
}

struct World {
    cache: Cache,
    queue: Queue,
    profile: Profile,
    pods: BTreeMap<String, Value>,
    nodes: BTreeMap<String, Value>,
    classes: BTreeMap<String, Value>,
    budgets: Vec<Value>,
    events: BTreeSet<String>,
    now: Instant,
}

impl World {
    /// `None` where something in the situation is not played here.
    fn play(case: &Value) -> Option<Self> {
        let mut world = Self {
            cache: Cache::default(),
            queue: Queue::default(),
            profile: Profile::default(),
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            classes: BTreeMap::new(),
            budgets: Vec::new(),
            events: BTreeSet::new(),
            now: Instant::now(),
        };
        let labels = BTreeMap::from([("kubernetes.io/metadata.name".to_owned(), NAMESPACE.to_owned())]);
        world.cache.set_namespace(NAMESPACE, Some(&labels));
        tree::list(case, &["nodes"]).iter().for_each(|node| world.register(node));
        for step in tree::list(case, &["steps"]) {
            world.step(step)?;
            world.schedule();
        }
        Some(world)
    }

    fn step(&mut self, step: &Value) -> Option<()> {
        if let Some(created) = step.get("create") {
            let objects = created.as_array().cloned().unwrap_or_else(|| vec![created.clone()]);
            objects.iter().try_for_each(|object| self.create(object))
        } else if let Some(reference) = step.get("patch").and_then(Value::as_str) {
            self.patch(reference, step.get("with")?)
        } else if let Some(reference) = step.get("delete").and_then(Value::as_str) {
            let name = reference.strip_prefix("Pod/")?;
            self.gone(name);
            Some(())
        } else if let Some(node) = step.get("node") {
            // It is not ready at first, which the node controller says with a taint.
            let mut unready = node.clone();
            let mut taints = tree::list(node, &["taints"]).to_vec();
            taints.push(json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}));
            tree::set(&mut unready, &["taints"], taints);
            self.register(&unready);
            self.schedule();
            self.register(node);
            Some(())
        } else {
            (step.get("wait").is_some() || step.get("settle").is_some()).then_some(())
        }
    }

    fn register(&mut self, node: &Value) {
        let name = format!("{NAMESPACE}-{}", tree::text(node, &["name"]));
        let or = |key: &str, default: &str| node.get(key).and_then(Value::as_str).unwrap_or(default).to_owned();
        let mut labels = json!({"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "situation": NAMESPACE});
        if let (Value::Object(labels), Some(more)) = (&mut labels, tree::map(node, &["labels"])) {
            labels.extend(more.clone());
        }
        let mut taints = vec![json!({"key": "situation", "value": NAMESPACE, "effect": "NoSchedule"})];
        taints.extend(tree::list(node, &["taints"]).iter().cloned());
        let object = json!({
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": taints, "unschedulable": node.get("unschedulable").cloned().unwrap_or(false.into())},
            "status": {"allocatable": {"cpu": or("cpu", "4"), "memory": or("memory", "8Gi"), "pods": or("pods", "110"),
                                       "ephemeral-storage": "100Gi"},
                       "images": node.get("images").cloned().unwrap_or(json!([]))}});
        self.set_node(object);
    }

    fn set_node(&mut self, object: Value) {
        let node: Arc<Node> = Arc::new(serde_json::from_value(object.clone()).unwrap());
        let name = meta::name(&object).to_owned();
        let happened = ClusterEvent::node(self.cache.node(&name), &node);
        self.cache.set_node(node);
        self.nodes.insert(name, object);
        if let Some(happened) = happened {
            self.happened(&happened);
        }
    }

    fn create(&mut self, object: &Value) -> Option<()> {
        let name = meta::name(object).to_owned();
        match meta::kind(object) {
            "PriorityClass" => {
                self.classes.insert(name, object.clone());
            }
            "PodDisruptionBudget" => self.budgets.push(object.clone()),
            "Pod" => {
                let mut pod = object.clone();
                tree::set(&mut pod, &["metadata", "namespace"], NAMESPACE);
                tree::set(&mut pod, &["metadata", "uid"], name.clone());
                tree::set(&mut pod, &["spec", "nodeSelector", "situation"], NAMESPACE);
                let mut tolerations = tree::list(&pod, &["spec", "tolerations"]).to_vec();
                tolerations.push(json!({"key": "situation", "value": NAMESPACE, "effect": "NoSchedule"}));
                tree::set(&mut pod, &["spec", "tolerations"], tolerations);
                for container in
                    tree::get_mut(&mut pod, &["spec", "containers"]).and_then(Value::as_array_mut).into_iter().flatten()
                {
                    for (name, amount) in tree::map(&container.clone(), &["resources", "limits"]).into_iter().flatten()
                    {
                        tree::set_default(container, &["resources", "requests", name], amount.clone());
                    }
                }
                if !tree::text(&pod, &["spec", "nodeName"]).is_empty() {
                    tree::set(&mut pod, &["status", "conditions"], json!([{"type": "PodScheduled", "status": "True"}]));
                }
                if let Some(class) = self.classes.get(tree::text(&pod, &["spec", "priorityClassName"])) {
                    tree::set(&mut pod, &["spec", "priority"], class["value"].clone());
                    if let Some(policy) = class.get("preemptionPolicy") {
                        tree::set(&mut pod, &["spec", "preemptionPolicy"], policy.clone());
                    }
                }
                self.set_pod(name, pod);
            }
            _ => return None,
        }
        Some(())
    }

    fn patch(&mut self, reference: &str, with: &Value) -> Option<()> {
        match reference.split_once('/')? {
            ("Pod", name) => {
                let pod = patch::merge::apply(self.pods.get(name)?, with).unwrap();
                self.set_pod(name.to_owned(), pod);
            }
            ("Node", name) => {
                let node = patch::merge::apply(self.nodes.get(name)?, with).unwrap();
                self.set_node(node);
            }
            _ => return None,
        }
        Some(())
    }

    /// A pod as a watch would bring it.
    fn set_pod(&mut self, name: String, object: Value) {
        let pod: Pod = serde_json::from_value(object.clone()).unwrap();
        self.pods.insert(name, object);
        let pod = Arc::new(PodInfo::new(Arc::new(pod)));
        if pod.node_name().is_empty() {
            match pod.nominated_node() {
                "" => self.cache.unnominate(pod.uid()),
                node => self.cache.nominate(pod.clone(), node),
            }
            let profile = &self.profile;
            self.queue.set(pod, Wakes::default(), self.now, |plugins, old, new| {
                profile.helps(plugins, new, &ClusterEvent::PodItself { old: old.clone(), new: new.clone() })
            });
            return;
        }
        self.queue.remove(pod.uid());
        self.cache.unnominate(pod.uid());
        let known = self.cache.pod(pod.uid()).cloned();
        self.cache.set_pod(pod.clone());
        match known {
            None => self.happened(&ClusterEvent::PodBound(pod)),
            Some(old) if pod.is_terminating() && !old.is_terminating() => {
                let node = pod.node_name().to_owned();
                self.queue.look_again(self.now, |waiting| waiting.nominated_node() == node);
            }
            Some(old) => self.happened(&ClusterEvent::PodChanged { old, new: pod }),
        }
    }

    fn gone(&mut self, name: &str) {
        self.pods.remove(name);
        self.queue.remove(name);
        self.cache.unnominate(name);
        if let Some(pod) = self.cache.remove_pod(name) {
            let node = self.cache.node(pod.node_name()).cloned();
            self.happened(&ClusterEvent::PodGone { pod, node });
        }
    }

    fn happened(&mut self, event: &ClusterEvent) {
        let profile = &self.profile;
        self.queue.happened(&Wakes::default(), self.now, |plugins, pod| profile.helps(plugins, pod, event));
    }

    /// Schedules until nothing is left to do within some seconds.
    fn schedule(&mut self) {
        let end = self.now + Duration::from_secs(5);
        loop {
            while let Some(waiting) = self.queue.pop(self.now) {
                let pod = waiting.pod.clone();
                match self.attempt(&pod) {
                    Ok(node) => {
                        self.queue.done(pod.uid());
                        let mut object = self.pods[pod.name()].clone();
                        tree::set(&mut object, &["spec", "nodeName"], node.clone());
                        tree::set(
                            &mut object,
                            &["status", "conditions"],
                            json!([{"type": "PodScheduled", "status": "True"}]),
                        );
                        tree::remove(&mut object, &["status", "nominatedNodeName"]);
                        let text = format!("Successfully assigned {NAMESPACE}/{} to {node}", pod.name());
                        self.events.insert(format!("Normal Scheduled, Pod/{}, default-scheduler: {text}", pod.name()));
                        self.set_pod(pod.name().to_owned(), object);
                    }
                    Err((message, plugins, victims)) => {
                        self.queue.failed(waiting, plugins, self.now);
                        self.events.insert(format!(
                            "Warning FailedScheduling, Pod/{}, default-scheduler: {message}",
                            pod.name()
                        ));
                        let mut object = self.pods[pod.name()].clone();
                        let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message});
                        tree::set(&mut object, &["status", "conditions"], vec![condition]);
                        if let Some((node, _)) = &victims {
                            tree::set(&mut object, &["status", "nominatedNodeName"], node.clone());
                        }
                        self.set_pod(pod.name().to_owned(), object);
                        for victim in victims.into_iter().flat_map(|(_, victims)| victims) {
                            self.evict(&victim, pod.uid());
                        }
                    }
                }
            }
            match self.queue.next_due() {
                Some(due) if due <= end => self.now = due.max(self.now),
                _ => break,
            }
        }
        self.now = end;
    }

    #[allow(clippy::type_complexity, reason = "the parts of a failure, taken apart at once")]
    fn attempt(
        &mut self,
        pod: &PodInfo,
    ) -> Result<String, (String, BTreeSet<&'static str>, Option<(String, Vec<String>)>)> {
        let snapshot = self.cache.snapshot_for(pod);
        let replicas = Selector::everything();
        let ask = Ask { pod, snapshot: &snapshot, replicas: &replicas };
        match algorithm::filter(&self.profile, ask, &mut 0) {
            Ok(feasible) => Ok(algorithm::score(&self.profile, ask, &feasible.nodes, &mut First).name().to_owned()),
            Err(mut nowhere) => {
                let outcome = preemption::find(&self.profile, ask, &nowhere, &self.budgets());
                nowhere.preemption = outcome.message;
                let victims = outcome
                    .victims
                    .map(|victims| (victims.node, victims.pods.iter().map(|pod| pod.name().to_owned()).collect()));
                Err((nowhere.to_string(), nowhere.plugins.clone(), victims))
            }
        }
    }

    /// What the disruption controller would say of the budgets.
    fn budgets(&self) -> Vec<Budget> {
        let budget = |object: &Value| {
            let selector = Selector::from_label_selector(&object["spec"]["selector"]).unwrap();
            let healthy = self.pods.values().filter(|pod| selector.matches(&meta::labels(pod))).count() as i64;
            let allowed = healthy - tree::integer(object, &["spec", "minAvailable"]).unwrap_or_default();
            Budget { namespace: NAMESPACE.to_owned(), selector, allowed }
        };
        self.budgets.iter().map(budget).collect()
    }

    fn evict(&mut self, name: &str, by: &str) {
        let mut object = self.pods[name].clone();
        let node = tree::text(&object, &["spec", "nodeName"]).to_owned();
        self.events
            .insert(format!("Normal Preempted, Pod/{name}, default-scheduler: Preempted by pod {by} on node {node}"));
        if meta::annotation(&object, "situation/linger").is_none() {
            self.gone(name);
            return;
        }
        tree::set(&mut object, &["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
        let conditions = json!([{"type": "PodScheduled", "status": "True"},
            {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
             "message": "default-scheduler: preempting to accommodate a higher priority pod"}]);
        tree::set(&mut object, &["status", "conditions"], conditions);
        self.set_pod(name.to_owned(), object);
    }

    /// Where the pods are, and what is said of them, differently from what Kubernetes made of it.
    fn differences(&self, case: &Value) -> Vec<String> {
        let mut differences = Vec::new();
        for (reference, expected) in tree::map(case, &["expected", "objects"]).into_iter().flatten() {
            for expected in expected.as_array().into_iter().flatten() {
                let name = reference.strip_prefix("Pod/").unwrap_or_else(|| tree::text(expected, &["metadata.name"]));
                let Some(pod) = self.pods.get(name) else {
                    differences.push(format!("{}: {name} is gone", case["id"]));
                    continue;
                };
                for (path, wanted) in expected.as_object().into_iter().flatten() {
                    if let Some(found) = found(pod, path)
                        && found != *wanted
                    {
                        differences.push(format!("{}: {name} {path}\n  is    {found}\n  wants {wanted}", case["id"]));
                    }
                }
            }
        }
        if let Some(wanted) = case["expected"].get("events").and_then(Value::as_array) {
            let wanted: BTreeSet<String> = wanted.iter().filter_map(Value::as_str).map(without_uid).collect();
            let found: BTreeSet<String> = self.events.iter().map(|event| without_uid(event)).collect();
            for event in wanted.symmetric_difference(&found) {
                let side = if wanted.contains(event) { "lacks" } else { "has" };
                differences.push(format!("{}: {side} {event}", case["id"]));
            }
        }
        differences
    }
}

/// The part of a pod that a path means; `None` for parts that are not played.
fn found(pod: &Value, path: &str) -> Option<Value> {
    let condition = |name: &str| {
        let list = tree::list(pod, &["status", "conditions"]);
        list.iter().find(|condition| condition["type"] == name).cloned().unwrap_or_default()
    };
    match path {
        "spec.nodeName" => Some(tree::text(pod, &["spec", "nodeName"]).into()),
        "spec.priority" => Some(tree::integer(pod, &["spec", "priority"]).into()),
        "status.nominatedNodeName" => Some(tree::text(pod, &["status", "nominatedNodeName"]).into()),
        "metadata.deletionTimestamp" => Some(if meta::is_deleting(pod) { "<time>".into() } else { Value::Null }),
        "status.conditions[PodScheduled]" => Some(condition("PodScheduled")),
        "status.conditions[DisruptionTarget]" => Some(condition("DisruptionTarget")),
        _ => None,
    }
}

fn without_uid(event: &str) -> String {
    match event.split_once("Preempted by pod ") {
        Some((start, rest)) => {
            let end = rest.split_once(' ').map_or("", |(_, end)| end);
            format!("{start}Preempted by pod {end}")
        }
        None => event.to_owned(),
    }
}
