//! ReplicaSets: as many pods of a template as wanted.

mod plan;
mod rank;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use trireme_client::{Action, Clock, Controller, Object, ObjectKey, PostParams, ReconcileError, Reconciler, Store};

use crate::cluster::{Cluster, POD_CONTROLLER, REPLICA_SET_OWNER};
use crate::common::podmaker::{PodMaker, from_template};
use crate::common::{adopt, owner, pods, selector};

const NAME: &str = "replicaset";

struct ReplicaSets {
    maker: PodMaker,
    sets: Store<ReplicaSet>,
    pods: Store<Pod>,
    clock: Clock,
}

/// The controller and its work.
pub(crate) fn controller(cluster: &Cluster) -> (Controller, Arc<dyn Reconciler>) {
    let maker = PodMaker { client: cluster.client.clone(), events: cluster.events("replicaset-controller") };
    let (sets, pods) = (cluster.replica_sets(), cluster.pods());
    let all = sets.store();
    let controller =
        cluster.controller(NAME).watch(&sets, |set| vec![set.key()]).watch(&pods, move |pod| sets_of(pod, &all));
    let reconciler = ReplicaSets { maker, sets: sets.store(), pods: pods.store(), clock: cluster.clock.clone() };
    (controller, Arc::new(reconciler))
}

/// The set that controls a pod, or those that would take an orphan.
fn sets_of(pod: &Pod, sets: &Store<ReplicaSet>) -> Vec<ObjectKey> {
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    match owner::controller_of(&pod.metadata) {
        Some(reference) if reference.kind == "ReplicaSet" && reference.api_version.starts_with("apps/") => {
            vec![ObjectKey::new(namespace, reference.name.clone())]
        }
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
impl Reconciler for ReplicaSets {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let Some(set) = self.sets.get(key) else { return Ok(Action::Done) };
        let spec = &set.spec;
        let wanted = selector::of(&spec.selector);
        let mut known = self.pods.by_index(POD_CONTROLLER, set.uid());
        known.extend(self.orphans(&key.namespace));
        let (active, leaving): (Vec<_>, Vec<_>) = known.into_iter().partition(|p| pods::is_active(p));
        let sorted = owner::sort(&*set, &wanted, active);
        let active = adopt::settle(&self.maker.client, &*set, sorted).await?;
        let terminating = owner::sort(&*set, &wanted, leaving).mine.iter().filter(|p| pods::is_terminating(p)).count();

        let now = self.clock.now();
        let plan = plan::plan(&set, &active, &self.related(&set), now);
        let template = spec.template.clone().unwrap_or_default();
        let managed = async {
            self.maker.create(&*set, plan.create, || from_template(&template, &*set)).await?;
            self.maker.delete(&*set, &plan.delete).await
        }
        .await;
        let failure = managed.as_ref().err().map(ToString::to_string);
        if let Some(status) = plan::status(&set, &active, terminating, failure.as_deref(), self.clock.now_seconds()) {
            let mut updated = (*set).clone();
            updated.status = Some(status);
            let api = self.maker.client.namespaced::<ReplicaSet>(&key.namespace);
            api.update_status(&PostParams::default(), &updated).await?;
        }
        managed?;
        Ok(plan::next_look(&set, &active, now).map_or(Action::Done, Action::RequeueAfter))
    }
}

impl ReplicaSets {
    fn orphans(&self, namespace: &str) -> Vec<Arc<Pod>> {
        self.pods.by_index(POD_CONTROLLER, &crate::cluster::orphans_of(namespace))
    }

    /// The pods of every set with the same owner: a rollout's old and new sets are judged together.
    fn related(&self, set: &ReplicaSet) -> Vec<Arc<Pod>> {
        let sets = match owner::controller_of(&set.metadata) {
            Some(reference) => self.sets.by_index(REPLICA_SET_OWNER, &reference.uid),
            None => return self.pods.by_index(POD_CONTROLLER, set.uid()),
        };
        sets.iter().flat_map(|s| self.pods.by_index(POD_CONTROLLER, s.uid())).collect()
    }
}
