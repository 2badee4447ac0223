//! Deployments: rollouts over ReplicaSets.
//!
//! A round looks at the Deployment, its ReplicaSets and whether old pods still run, and plans everything that can be done
//! at this moment ([`plan`]); what follows from it wakes the key again.

mod conditions;
mod plan;
mod rollout;
mod scale;
mod sets;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use trireme_client::{
    Action, Client, Clock, Controller, DeleteParams, Error, EventRecorder, EventType, Object, ObjectKey, PostParams,
    ReconcileError, Reconciler, Store,
};

use crate::cluster::{Cluster, POD_CONTROLLER};
use crate::common::{adopt, owner, pods, selector};
use plan::{Observed, Plan, Write};

const NAME: &str = "deployment";

struct Deployments {
    client: Client,
    events: EventRecorder,
    deployments: Store<Deployment>,
    sets: Store<ReplicaSet>,
    pods: Store<Pod>,
    clock: Clock,
}

/// The controller and its work.
pub(crate) fn controller(cluster: &Cluster) -> (Controller, Arc<dyn Reconciler>) {
    let (deployments, sets, pods) = (cluster.deployments(), cluster.replica_sets(), cluster.pods());
    let all = deployments.store();
    let known_sets = sets.store();
    let controller = cluster
        .controller(NAME)
        .watch(&deployments, |deployment| vec![deployment.key()])
        .watch(&sets, move |set| deployments_of(set, &all))
        // Only Recreate looks at pods, and only at their end.
        .watch_changes(&pods, move |change| match change {
            trireme_client::Change::Added(_) => Vec::new(),
            trireme_client::Change::Updated { old, new } if pods::is_finished(old) == pods::is_finished(new) => {
                Vec::new()
            }
            trireme_client::Change::Updated { new: pod, .. } | trireme_client::Change::Deleted(pod) => {
                let namespace = pod.metadata.namespace.clone().unwrap_or_default();
                let set = owner::controller_of(&pod.metadata).and_then(|r| known_sets.find(&namespace, &r.name));
                let deployment = set.and_then(|s| owner::controller_of(&s.metadata).map(|r| r.name.clone()));
                deployment.map(|name| ObjectKey::new(namespace, name)).into_iter().collect()
            }
        });
    let reconciler = Deployments {
        client: cluster.client.clone(),
        events: cluster.events("deployment-controller"),
        deployments: deployments.store(),
        sets: sets.store(),
        pods: pods.store(),
        clock: cluster.clock.clone(),
    };
    (controller, Arc::new(reconciler))
}

/// The Deployment that controls a set, or those that would take an orphan.
fn deployments_of(set: &ReplicaSet, deployments: &Store<Deployment>) -> Vec<ObjectKey> {
    let namespace = set.metadata.namespace.clone().unwrap_or_default();
    match owner::controller_of(&set.metadata) {
        Some(reference) if reference.kind == "Deployment" => vec![ObjectKey::new(namespace, reference.name.clone())],
        Some(_) => Vec::new(),
        None => deployments
            .in_namespace(&namespace)
            .into_iter()
            .filter(|d| selector::of(&d.spec.selector).matches(&set.metadata.labels))
            .map(|d| d.key())
            .collect(),
    }
}

#[async_trait::async_trait]
impl Reconciler for Deployments {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let Some(deployment) = self.deployments.get(key) else { return Ok(Action::Done) };
        let spec = &deployment.spec;
        if selector::is_empty(&spec.selector) {
            let text = "This deployment is selecting all pods. A non-empty selector is required.";
            self.events.event(&*deployment, EventType::Warning, "SelectingAll", text);
            return Ok(Action::Done);
        }
        let sorted = owner::sort(&*deployment, &selector::of(&spec.selector), self.sets.in_namespace(&key.namespace));
        let sets = adopt::settle(&self.client, &*deployment, sorted).await?;
        let running =
            |set: &ReplicaSet| self.pods.by_index(POD_CONTROLLER, set.uid()).iter().any(|p| !pods::is_finished(p));
        let running = sets.iter().filter(|s| running(s)).map(|s| s.uid().to_owned()).collect();
        let observed = Observed { deployment: &deployment, sets: &sets, running, now: self.clock.now_seconds() };
        self.execute(&deployment, plan::plan(&observed)).await
    }
}

impl Deployments {
    async fn execute(&self, deployment: &Deployment, plan: Plan) -> Result<Action, ReconcileError> {
        let namespace = deployment.key().namespace;
        let sets = self.client.namespaced::<ReplicaSet>(&namespace);
        for write in plan.writes {
            match write {
                Write::Create { set, event } => match sets.create(&PostParams::default(), &set).await {
                    Ok(_) => self.tell(deployment, event),
                    Err(error) => return self.create_failed(deployment, &set, error).await,
                },
                Write::Update { set, event } => {
                    sets.update(&PostParams::default(), &set).await?;
                    self.tell(deployment, event);
                }
                Write::Delete(set) => match sets.delete(&set.key().name, &DeleteParams::uid(set.uid())).await {
                    Err(error) if error.is_not_found() => {}
                    other => drop(other?),
                },
            }
        }
        if let Some(updated) = plan.status {
            self.client.namespaced::<Deployment>(&namespace).update_status(&PostParams::default(), &updated).await?;
        }
        Ok(plan.again.map_or(Action::Done, Action::RequeueAfter))
    }

    fn tell(&self, deployment: &Deployment, event: Option<String>) {
        if let Some(text) = event {
            self.events.event(deployment, EventType::Normal, "ScalingReplicaSet", text);
        }
    }

    async fn create_failed(
        &self,
        deployment: &Deployment,
        set: &ReplicaSet,
        error: Error,
    ) -> Result<Action, ReconcileError> {
        let key = deployment.key();
        let api = self.client.namespaced::<Deployment>(&key.namespace);
        if error.is_already_exists() {
            let found = self.client.namespaced::<ReplicaSet>(&key.namespace).get_opt(&set.key().name).await?;
            if found.is_some_and(|f| {
                owner::is_controlled_by(&f.metadata, deployment.uid()) && sets::same_template(&f, deployment)
            }) {
                // The informer has not seen it yet.
                return Err(error.into());
            }
            // Another template has this name: the next round chooses another.
            let mut updated = deployment.clone();
            let collisions = &mut updated.status.get_or_insert_default().collision_count;
            *collisions = Some(collisions.unwrap_or(0) + 1);
            api.update_status(&PostParams::default(), &updated).await?;
            return Err(error.into());
        }
        if error.is_namespace_terminating() || error.is_claim_lost() || error.is_outcome_unknown() {
            return Err(error.into());
        }
        let text = format!("Failed to create new replica set {:?}: {error}", set.key().name);
        self.events.event(deployment, EventType::Warning, "ReplicaSetCreateError", text.clone());
        let mut updated = deployment.clone();
        if conditions::create_failed(&mut updated, &text, self.clock.now_seconds()) {
            api.update_status(&PostParams::default(), &updated).await?;
        }
        Err(error.into())
    }
}
