//! DaemonSets: a pod on every node that fits.

mod plan;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use parking_lot::Mutex;
use tokio::time::Instant;
use trireme_client::backoff::exponential;
use trireme_client::{
    Action, Clock, Controller, DeleteParams, EventType, Object, ObjectKey, PostParams, ReconcileError, Reconciler,
    Store,
};

use crate::cluster::{Cluster, POD_CONTROLLER};
use crate::common::history::{self, Current, hash_of};
use crate::common::podmaker::{PodMaker, from_template};
use crate::common::{adopt, owner, pods, selector};
use plan::{Observed, Plan};

const NAME: &str = "daemonset";
/// At most so many pods are made or deleted in a round.
const BURST: usize = 250;
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(15 * 60);

struct DaemonSets {
    maker: PodMaker,
    sets: Store<DaemonSet>,
    pods: Store<Pod>,
    nodes: Store<Node>,
    revisions: Store<ControllerRevision>,
    clock: Clock,
    /// (set, node) → how often its pod failed and when a new one may follow.
    failures: Mutex<HashMap<(String, String), (u32, Instant)>>,
}

/// The controller and its work.
pub(crate) fn controller(cluster: &Cluster) -> (Controller, Arc<dyn Reconciler>) {
    let (sets, pods, nodes, revisions) = (cluster.daemon_sets(), cluster.pods(), cluster.nodes(), cluster.revisions());
    let (of_pod, of_node) = (sets.store(), sets.store());
    let controller = cluster
        .controller(NAME)
        .watch(&sets, |set| vec![set.key()])
        .watch(&pods, move |pod| sets_of(pod, &of_pod))
        .watch(&revisions, |revision| match owner::controller_of(&revision.metadata) {
            Some(r) if r.kind == "DaemonSet" => vec![ObjectKey::new(revision.key().namespace, r.name.clone())],
            _ => Vec::new(),
        })
        .watch_changes(&nodes, move |change| match change {
            trireme_client::Change::Updated { old, new } if same_for_pods(old, new) => Vec::new(),
            _ => of_node.list().iter().map(|s| s.key()).collect(),
        });
    let reconciler = DaemonSets {
        maker: PodMaker { client: cluster.client.clone(), events: cluster.events("daemonset-controller") },
        sets: sets.store(),
        pods: pods.store(),
        nodes: nodes.store(),
        revisions: revisions.store(),
        clock: cluster.clock.clone(),
        failures: Mutex::default(),
    };
    (controller, Arc::new(reconciler))
}

/// Two states of a node ask the same of pods.
fn same_for_pods(old: &Node, new: &Node) -> bool {
    let taints = |node: &Node| -> Vec<(String, String, Option<String>)> {
        let taints = node.spec.as_ref().and_then(|s| s.taints.as_ref());
        taints.into_iter().flatten().map(|t| (t.key.clone(), t.effect.clone(), t.value.clone())).collect()
    };
    old.metadata.labels == new.metadata.labels && taints(old) == taints(new)
}

fn sets_of(pod: &Pod, sets: &Store<DaemonSet>) -> Vec<ObjectKey> {
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    match owner::controller_of(&pod.metadata) {
        Some(reference) if reference.kind == "DaemonSet" => vec![ObjectKey::new(namespace, reference.name.clone())],
        Some(_) => Vec::new(),
        None => sets
            .in_namespace(&namespace)
            .into_iter()
            .filter(|set| selector::of(&set.spec.selector).matches(&pod.metadata.labels))
            .map(|set| set.key())
            .collect(),
    }
}

#[async_trait::async_trait]
impl Reconciler for DaemonSets {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let Some(set) = self.sets.get(key) else { return Ok(Action::Done) };
        if selector::is_empty(&set.spec.selector) {
            let text = "This daemon set is selecting all pods. A non-empty selector is required.";
            self.maker.events.event(&*set, EventType::Warning, "SelectingAll", text);
            return Ok(Action::Done);
        }
        let wanted = selector::of(&set.spec.selector);
        let mut known = self.pods.by_index(POD_CONTROLLER, set.uid());
        known.extend(self.pods.by_index(POD_CONTROLLER, &crate::cluster::orphans_of(&key.namespace)));
        let own = adopt::settle(&self.maker.client, &*set, owner::sort(&*set, &wanted, known)).await?;
        let revisions = self.revisions.in_namespace(&key.namespace);
        let revisions = owner::sort(&*set, &wanted, revisions).mine;
        let collisions = set.status.as_ref().and_then(|s| s.collision_count);
        let current = history::current(&*set, &set.spec.template, collisions, &revisions);
        let hash = current.hash().to_owned();
        if !set.is_deleting() {
            self.keep(&set, &current).await?;
        }
        let nodes = self.nodes.list();
        let backing_off = |node: &str| self.is_backing_off(set.uid(), node);
        let observed = Observed {
            set: &set,
            nodes: &nodes,
            pods: &own,
            hash: &hash,
            now: self.clock.now(),
            backing_off: &backing_off,
        };
        let done = self.execute(&set, plan::plan(&observed), &hash).await;
        if let Some(status) = plan::status(&observed) {
            let mut updated = (*set).clone();
            updated.status = Some(status);
            let api = self.maker.client.namespaced::<DaemonSet>(&key.namespace);
            api.update_status(&PostParams::default(), &updated).await?;
        }
        done?;
        self.forget_history(&set, &current, &own).await?;
        Ok(self.next_look(&set, &own).map_or(Action::Done, Action::RequeueAfter))
    }
}

impl DaemonSets {
    /// The revision of the present template exists and is the newest.
    async fn keep(&self, set: &DaemonSet, current: &Current) -> Result<(), ReconcileError> {
        let api = self.maker.client.namespaced::<ControllerRevision>(set.key().namespace);
        if current.revision.metadata.resource_version.is_some() {
            if current.renumbered {
                api.update(&PostParams::default(), &current.revision).await?;
            }
            return Ok(());
        }
        let error = match api.create(&PostParams::default(), &current.revision).await {
            Err(error) if error.is_already_exists() => error,
            other => return other.map(drop).map_err(Into::into),
        };
        let taken = api.get_opt(&current.revision.key().name).await?;
        if taken.is_some_and(|t| t.data == current.revision.data) {
            return Ok(());
        }
        // Another template has this name: the next round chooses another.
        let mut updated = set.clone();
        let collisions = &mut updated.status.get_or_insert_default().collision_count;
        *collisions = Some(collisions.unwrap_or(0) + 1);
        let sets = self.maker.client.namespaced::<DaemonSet>(set.key().namespace);
        sets.update_status(&PostParams::default(), &updated).await?;
        Err(error.into())
    }

    async fn execute(&self, set: &DaemonSet, plan: Plan, hash: &str) -> Result<(), ReconcileError> {
        for (pod, node) in &plan.ended {
            let key = pod.key();
            if pods::phase(pod) == "Failed" {
                self.note_failure(set.uid(), node);
                let text = format!("Found failed daemon pod {key} on node {node}, will try to kill it");
                self.maker.events.event(set, EventType::Warning, "FailedDaemonPod", text);
            } else {
                let text = format!("Found succeeded daemon pod {key} on node {node}, will try to delete it");
                self.maker.events.event(set, EventType::Normal, "SucceededDaemonPod", text);
            }
        }
        let nodes: Vec<String> = plan.create.into_iter().take(BURST).collect();
        let next = std::sync::atomic::AtomicUsize::new(0);
        let make = || {
            let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            from_template(&plan::template_for(set, hash, &nodes[at.min(nodes.len() - 1)]), set)
        };
        self.maker.create(set, nodes.len(), make).await?;
        let delete: Vec<_> = plan.delete.into_iter().take(BURST).collect();
        self.maker.delete(set, &delete).await?;
        Ok(())
    }

    async fn forget_history(&self, set: &DaemonSet, current: &Current, own: &[Arc<Pod>]) -> Result<(), ReconcileError> {
        let live: BTreeSet<String> = own.iter().map(|p| hash_of(&p.metadata).to_owned()).collect();
        let api = self.maker.client.namespaced::<ControllerRevision>(set.key().namespace);
        for old in history::superfluous(&current.old, set.spec.revision_history_limit, &live) {
            match api.delete(&old.key().name, &DeleteParams::uid(old.uid())).await {
                Err(error) if error.is_not_found() => {}
                other => drop(other?),
            }
        }
        Ok(())
    }

    fn is_backing_off(&self, set: &str, node: &str) -> bool {
        let failures = self.failures.lock();
        failures.get(&(set.to_owned(), node.to_owned())).is_some_and(|(_, until)| *until > Instant::now())
    }

    fn note_failure(&self, set: &str, node: &str) {
        let now = Instant::now();
        let mut failures = self.failures.lock();
        failures.retain(|_, (_, until)| now.saturating_duration_since(*until) < 2 * LONGEST_WAIT);
        let entry = failures.entry((set.to_owned(), node.to_owned())).or_insert((0, now));
        *entry = (entry.0 + 1, now + exponential(FIRST_WAIT, LONGEST_WAIT, entry.0));
    }

    fn next_look(&self, set: &DaemonSet, own: &[Arc<Pod>]) -> Option<Duration> {
        let seconds = set.spec.min_ready_seconds.unwrap_or(0);
        let ready = pods::next_available(own.iter().map(Arc::as_ref), seconds, self.clock.now());
        let now = Instant::now();
        let failures = self.failures.lock();
        let waits = failures.iter().filter(|((uid, _), (_, until))| uid == set.uid() && *until > now);
        waits.map(|(_, (_, until))| until.saturating_duration_since(now)).chain(ready).min()
    }
}
