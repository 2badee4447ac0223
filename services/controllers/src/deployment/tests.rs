//! Rollouts played out without a cluster: the planner's writes are applied, the sets' pods follow, and the round is
//! repeated until nothing is left to do. What must come out is what real Kubernetes made of the same situations.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use trireme_client::Object;

use super::plan::{Observed, Plan, Write, plan};
use super::sets::{self, size};

/// A cluster of one Deployment.
struct World {
    deployment: Deployment,
    sets: Vec<Arc<ReplicaSet>>,
    /// Pods of images with this name never become available.
    broken: &'static str,
    now: Timestamp,
    events: Vec<String>,
    made: usize,
    /// The most and fewest pods that were ever there and available.
    most: i32,
    fewest: i32,
}

impl World {
    fn new(spec: Value) -> Self {
        let mut object = json!({
            "metadata": {"name": "web", "namespace": "d", "uid": "d", "generation": 1},
            "spec": {
                "replicas": 3,
                "progressDeadlineSeconds": 600,
                "revisionHistoryLimit": 10,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "img:1"}]}},
            },
        });
        for (name, value) in spec.as_object().into_iter().flatten() {
            object["spec"][name] = value.clone();
        }
        Self {
            deployment: serde_json::from_value(object).unwrap(),
            sets: Vec::new(),
            broken: "none",
            now: "2026-01-01T12:00:00Z".parse().unwrap(),
            events: Vec::new(),
            made: 0,
            most: 0,
            fewest: i32::MAX,
        }
    }

    fn change(&mut self, change: impl FnOnce(&mut Deployment)) {
        change(&mut self.deployment);
        *self.deployment.metadata.generation.get_or_insert_default() += 1;
    }

    fn image(&mut self, image: &str) {
        self.change(|d| d.spec.template.spec.as_mut().unwrap().containers[0].image = Some(image.to_owned()));
    }

    fn pass(&mut self, seconds: i64) {
        self.now = self.now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
    }

    fn plan(&self) -> Plan {
        let alive = |s: &&Arc<ReplicaSet>| s.status.as_ref().is_some_and(|s| s.replicas > 0);
        let running: BTreeSet<String> = self.sets.iter().filter(alive).map(|s| s.uid().to_owned()).collect();
        plan(&Observed { deployment: &self.deployment, sets: &self.sets, running, now: self.now })
    }

    /// One round; false: nothing was left to do.
    fn round(&mut self) -> bool {
        let plan = self.plan();
        let busy = !plan.writes.is_empty() || plan.status.is_some();
        for write in plan.writes {
            self.apply(write);
        }
        if let Some(updated) = plan.status {
            self.deployment.status = updated.status;
            self.deployment.metadata.annotations = updated.metadata.annotations;
        }
        busy
    }

    fn apply(&mut self, write: Write) {
        let event = match write {
            Write::Create { mut set, event } => {
                self.made += 1;
                set.metadata.uid = Some(format!("rs{}", self.made));
                set.metadata.creation_timestamp = Some(Time(self.now));
                set.metadata.generation = Some(1);
                self.sets.push(Arc::from(set));
                event
            }
            Write::Update { set, event } => {
                let at = self.sets.iter().position(|s| s.uid() == set.uid()).unwrap();
                self.sets[at] = Arc::from(set);
                event
            }
            Write::Delete(set) => {
                self.sets.retain(|s| s.uid() != set.uid());
                None
            }
        };
        self.events.extend(event);
    }

    /// The sets' pods follow: as many as wanted, available unless their image is broken.
    fn pods_follow(&mut self) -> bool {
        let mut changed = false;
        let broken = self.broken;
        for set in &mut self.sets {
            let image = set.spec.template.as_ref().and_then(|t| t.spec.as_ref()?.containers[0].image.clone());
            let wanted = size(set);
            let available = if image.as_deref() == Some(broken) { 0 } else { wanted };
            let status = ReplicaSetStatus {
                replicas: wanted,
                ready_replicas: Some(available),
                available_replicas: Some(available),
                terminating_replicas: Some(0),
                observed_generation: set.metadata.generation,
                ..ReplicaSetStatus::default()
            };
            if set.status.as_ref() != Some(&status) {
                changed = true;
                Arc::make_mut(set).status = Some(status);
            }
        }
        changed
    }

    fn observe(&mut self) {
        self.most = self.most.max(self.sets.iter().map(|s| size(s)).sum());
        // What is scaled down is gone at once; what is scaled up is not there yet.
        let serving =
            |s: &Arc<ReplicaSet>| s.status.as_ref().and_then(|s| s.available_replicas).unwrap_or(0).min(size(s));
        self.fewest = self.fewest.min(self.sets.iter().map(serving).sum());
    }

    /// Until nothing is left to do.
    fn settle(&mut self) {
        for _ in 0..100 {
            let busy = self.round();
            self.observe();
            if !(self.pods_follow() || busy) {
                return;
            }
            self.pass(1);
        }
        panic!("it never comes to rest: {:?}", self.events);
    }

    fn sizes(&self) -> Vec<i32> {
        self.sets.iter().map(|s| size(s)).collect()
    }

    fn condition(&self, kind: &str) -> Option<(String, String)> {
        let all = self.deployment.status.as_ref()?.conditions.as_ref()?;
        let found = all.iter().find(|c| c.type_.as_deref() == Some(kind))?;
        Some((found.status.clone()?, found.reason.clone()?))
    }

    fn revision(&self) -> &str {
        &self.deployment.metadata.annotations.as_ref().unwrap()[sets::REVISION]
    }

    fn name(&self, set: usize) -> &str {
        self.sets[set].metadata.name.as_deref().unwrap()
    }
}

fn is(status: &str, reason: &str) -> Option<(String, String)> {
    Some((status.to_owned(), reason.to_owned()))
}

#[test]
fn a_new_deployment_makes_one_set() {
    let mut world = World::new(json!({}));
    world.settle();
    assert_eq!(world.sizes(), [3]);
    assert_eq!(world.events, [format!("Scaled up replica set {} from 0 to 3", world.name(0))]);
    let set = &world.sets[0];
    let annotations = set.metadata.annotations.as_ref().unwrap();
    assert_eq!(annotations[sets::DESIRED], "3");
    assert_eq!(annotations[sets::MAX], "4");
    assert_eq!(annotations[sets::REVISION], "1");
    let hash = &set.metadata.labels.as_ref().unwrap()[sets::HASH];
    assert_eq!(world.name(0), format!("web-{hash}"));
    assert_eq!(&set.spec.selector.match_labels.as_ref().unwrap()[sets::HASH], hash);
    assert_eq!(world.condition("Available"), is("True", "MinimumReplicasAvailable"));
    assert_eq!(world.condition("Progressing"), is("True", "NewReplicaSetAvailable"));
    let status = world.deployment.status.as_ref().unwrap();
    assert_eq!((status.replicas, status.available_replicas, status.terminating_replicas), (Some(3), Some(3), Some(0)));
}

#[test]
fn a_rolling_update_keeps_within_its_fences() {
    let mut world = World::new(json!({"replicas": 10}));
    world.settle();
    (world.most, world.fewest) = (0, i32::MAX);
    world.image("img:2");
    world.settle();
    assert_eq!(world.sizes(), [0, 10]);
    // 25 % of 10: a surge of 3, and 2 may be unavailable.
    assert!(world.most <= 13 && world.most > 10, "{}", world.most);
    assert!(world.fewest >= 8, "{}", world.fewest);
    assert_eq!(world.revision(), "2");
    assert_eq!(world.events[1], format!("Scaled up replica set {} from 0 to 3", world.name(1)));
    assert_eq!(world.events[2], format!("Scaled down replica set {} from 10 to 8", world.name(0)));
}

#[test]
fn recreate_ends_the_old_pods_first() {
    let mut world = World::new(json!({"strategy": {"type": "Recreate"}}));
    world.settle();
    world.most = 0;
    world.image("img:2");
    world.settle();
    assert_eq!(world.sizes(), [0, 3]);
    assert_eq!((world.most, world.fewest), (3, 0));
    assert_eq!(world.events[1], format!("Scaled down replica set {} from 3 to 0", world.name(0)));
    assert_eq!(world.events[2], format!("Scaled up replica set {} from 0 to 3", world.name(1)));
}

#[test]
fn going_back_takes_the_old_set_and_a_new_revision() {
    let mut world = World::new(json!({}));
    world.settle();
    world.image("img:2");
    world.settle();
    world.image("img:1");
    world.settle();
    assert_eq!(world.sizes(), [3, 0]);
    assert_eq!(world.revision(), "3");
    let annotations = world.sets[0].metadata.annotations.as_ref().unwrap();
    assert_eq!(annotations[sets::REVISION], "3");
    assert_eq!(annotations["deployment.kubernetes.io/revision-history"], "1");
}

#[test]
fn a_stuck_update_times_out_and_is_mended() {
    let mut world = World::new(json!({"progressDeadlineSeconds": 10}));
    world.broken = "img:bad";
    world.settle();
    world.image("img:bad");
    world.settle();
    assert_eq!(world.sizes(), [3, 1]);
    let again = world.plan().again.unwrap();
    assert!(again.as_secs() <= 11, "{again:?}");
    world.pass(12);
    world.settle();
    assert_eq!(world.condition("Progressing"), is("False", "ProgressDeadlineExceeded"));
    assert_eq!(world.condition("Available"), is("True", "MinimumReplicasAvailable"));
    assert_eq!(world.plan().again, None);
    world.image("img:2");
    world.settle();
    assert_eq!(world.sizes(), [0, 0, 3]);
    assert_eq!(world.condition("Progressing"), is("True", "NewReplicaSetAvailable"));
}

#[test]
fn a_paused_deployment_scales_but_does_not_roll() {
    let mut world = World::new(json!({}));
    world.settle();
    world.change(|d| d.spec.paused = Some(true));
    world.settle();
    assert_eq!(world.condition("Progressing"), is("Unknown", "DeploymentPaused"));
    world.image("img:2");
    world.change(|d| d.spec.replicas = Some(5));
    world.settle();
    assert_eq!(world.sizes(), [5]);
    world.change(|d| d.spec.paused = None);
    world.settle();
    assert_eq!(world.sizes(), [0, 5]);
    assert_eq!(world.condition("Progressing"), is("True", "NewReplicaSetAvailable"));
}

#[test]
fn scaling_in_the_middle_of_a_rollout_is_proportional() {
    let mut world = World::new(json!({
        "replicas": 10,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}},
    }));
    world.broken = "img:bad";
    world.settle();
    world.image("img:bad");
    world.settle();
    assert_eq!(world.sizes(), [8, 5]);
    world.change(|d| d.spec.replicas = Some(15));
    world.round();
    // 18 in all: the old set gets its share of the five more, and what is left over.
    assert_eq!(world.sizes(), [11, 7]);
}

#[test]
fn a_rollover_scales_all_old_sets_down() {
    let mut world = World::new(json!({"replicas": 4}));
    world.broken = "img:bad";
    world.settle();
    world.image("img:bad");
    world.settle();
    world.image("img:3");
    world.settle();
    assert_eq!(world.sizes(), [0, 0, 4]);
    assert_eq!(world.revision(), "3");
}

#[test]
fn old_sets_beyond_the_history_are_deleted() {
    let mut world = World::new(json!({"revisionHistoryLimit": 1}));
    world.settle();
    for image in ["img:2", "img:3", "img:4"] {
        world.image(image);
        world.settle();
    }
    assert_eq!(world.sizes(), [0, 3]);
    assert_eq!(world.revision(), "4");
}

#[test]
fn scaling_to_zero_and_back() {
    let mut world = World::new(json!({}));
    world.settle();
    world.change(|d| d.spec.replicas = Some(0));
    world.settle();
    assert_eq!(world.sizes(), [0]);
    world.change(|d| d.spec.replicas = Some(2));
    world.settle();
    assert_eq!(world.sizes(), [2]);
    assert_eq!(world.revision(), "1");
}

#[test]
fn annotations_reach_the_set_but_for_some() {
    let mut world = World::new(json!({}));
    let annotations =
        json!({"kubernetes.io/change-cause": "why", "kubectl.kubernetes.io/last-applied-configuration": "{}"});
    world.deployment.metadata.annotations = serde_json::from_value(annotations).unwrap();
    world.settle();
    let annotations = world.sets[0].metadata.annotations.as_ref().unwrap();
    assert_eq!(annotations["kubernetes.io/change-cause"], "why");
    assert!(!annotations.contains_key("kubectl.kubernetes.io/last-applied-configuration"));
}

#[test]
fn a_failure_of_the_set_is_the_deployments() {
    let mut world = World::new(json!({}));
    world.round();
    let set = Arc::make_mut(&mut world.sets[0]);
    let failure = json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "quota"});
    set.status = Some(serde_json::from_value(json!({"replicas": 0, "conditions": [failure]})).unwrap());
    world.round();
    assert_eq!(world.condition("ReplicaFailure"), is("True", "FailedCreate"));
    world.settle();
    assert_eq!(world.condition("ReplicaFailure"), None);
}

#[test]
fn a_deployment_that_goes_only_counts() {
    let mut world = World::new(json!({}));
    world.settle();
    world.image("img:2");
    world.deployment.metadata.deletion_timestamp = Some(Time(world.now));
    world.settle();
    assert_eq!(world.sizes(), [3]);
}
