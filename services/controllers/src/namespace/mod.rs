//! Namespaces that go away: everything in them is deleted, pods first, then the finalizer `kubernetes` is taken off.

mod conditions;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use serde_json::json;
use trireme_client::{
    Action, Client, Clock, Controller, DeleteParams, Error, ListParams, Object, ObjectKey, PostParams, Propagation,
    ReconcileError, Reconciler, Served, Store,
};

use crate::cluster::Cluster;
use crate::common::pods;
use conditions::Found;

const NAME: &str = "namespace";
const FINALIZER: &str = "kubernetes";

struct Namespaces {
    client: Client,
    namespaces: Store<Namespace>,
    clock: Clock,
}

/// The controller and its work.
pub(crate) fn controller(cluster: &Cluster) -> (Controller, Arc<dyn Reconciler>) {
    let namespaces = cluster.namespaces();
    let controller = cluster
        .controller(NAME)
        .watch(&namespaces, |namespace| if namespace.is_deleting() { vec![namespace.key()] } else { Vec::new() })
        .resync(cluster.config.namespace_sync_period);
    let reconciler =
        Namespaces { client: cluster.client.clone(), namespaces: namespaces.store(), clock: cluster.clock.clone() };
    (controller, Arc::new(reconciler))
}

#[async_trait::async_trait]
impl Reconciler for Namespaces {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let Some(namespace) = self.namespaces.get(key).filter(|n| n.is_deleting()) else { return Ok(Action::Done) };
        if !finalizers(&namespace).iter().any(|f| f == FINALIZER) {
            return Ok(Action::Done);
        }
        let api = self.client.api::<Namespace>();
        let mut namespace = (*namespace).clone();
        let mut status = namespace.status.clone().unwrap_or_default();
        if status.phase.as_deref() != Some("Terminating") {
            status.phase = Some("Terminating".to_owned());
            namespace.status = Some(status.clone());
            namespace = api.update_status(&PostParams::default(), &namespace).await?;
        }
        let found = self.empty(&key.name).await?;
        let before = status.conditions.clone().unwrap_or_default();
        if let Some(conditions) = conditions::update(&before, &found, self.clock.now_seconds()) {
            status.conditions = Some(conditions);
            namespace.status = Some(status);
            namespace = api.update_status(&PostParams::default(), &namespace).await?;
        }
        if found.is_empty() {
            return self.finalize(&namespace).await;
        }
        if !found.failures.is_empty() || !found.undiscovered.is_empty() {
            return Err(ReconcileError::other(format!("{} is not empty yet: {found:?}", key.name)));
        }
        Ok(Action::RequeueAfter(self.patience(&namespace).await))
    }
}

fn finalizers(namespace: &Namespace) -> Vec<String> {
    namespace.spec.as_ref().and_then(|s| s.finalizers.clone()).unwrap_or_default()
}

impl Namespaces {
    /// Deletes everything that can be, and says what is left.
    async fn empty(&self, namespace: &str) -> Result<Found, Error> {
        let discovered = self.client.discover().await?;
        let mut found = Found { undiscovered: discovered.failed, ..Found::default() };
        let deletable = |s: &&Served| s.resource.namespaced && s.takes(&["list", "delete"]);
        let (pods, others): (Vec<&Served>, Vec<&Served>) = discovered
            .resources
            .iter()
            .filter(deletable)
            .partition(|s| s.resource.group.is_empty() && s.resource.plural == "pods");
        for served in pods {
            self.delete_all(namespace, served, &mut found).await;
        }
        if !found.remaining.is_empty() {
            found.waits_for_pods = true;
            return Ok(found);
        }
        for served in others {
            self.delete_all(namespace, served, &mut found).await;
        }
        Ok(found)
    }

    async fn delete_all(&self, namespace: &str, served: &Served, found: &mut Found) {
        let api = self.client.metadata(&served.resource, namespace);
        let everything = ListParams::default();
        let round = async {
            let before = api.list(&everything).await?.items;
            if before.iter().all(Object::is_deleting) {
                return Ok(before);
            }
            let background = DeleteParams::default().propagation(Propagation::Background);
            if served.takes(&["deletecollection"]) {
                api.delete_collection(&background, &everything).await?;
            } else {
                for object in before.iter().filter(|o| !o.is_deleting()) {
                    let params = DeleteParams::uid(object.uid()).propagation(Propagation::Background);
                    match api.delete(&object.key().name, &params).await {
                        Err(error) if error.is_not_found() || error.is_conflict() => {}
                        other => drop(other?),
                    }
                }
            }
            Ok::<_, Error>(api.list(&everything).await?.items)
        };
        match round.await {
            Ok(left) if left.is_empty() => {}
            Ok(left) => {
                // As upstream names a resource, also that of the core group: with a dot.
                let name = format!("{}.{}", served.resource.plural, served.resource.group);
                found.remaining.insert(name, left.len());
                let mut each: BTreeMap<String, usize> = BTreeMap::new();
                for finalizer in left.iter().flat_map(|o| o.meta().finalizers.clone().unwrap_or_default()) {
                    *each.entry(finalizer).or_default() += 1;
                }
                each.into_iter()
                    .for_each(|(finalizer, count)| *found.finalizers.entry(finalizer).or_default() += count);
            }
            // The resource is not served any more, or not to be listed.
            Err(error) if error.is_not_found() || error.code() == Some(405) => {}
            Err(error) => found.failures.push(error.to_string()),
        }
    }

    async fn finalize(&self, namespace: &Namespace) -> Result<Action, ReconcileError> {
        let name = namespace.key().name;
        let rest: Vec<_> = finalizers(namespace).into_iter().filter(|f| f != FINALIZER).collect();
        let mut body = serde_json::to_value(namespace).map_err(ReconcileError::other)?;
        body["spec"] = json!({"finalizers": rest});
        match self.client.api::<Namespace>().update_subresource(&name, "finalize", &body).await {
            Err(error) if error.is_not_found() => Ok(Action::Done),
            other => other.map(|_| Action::Done).map_err(Into::into),
        }
    }

    /// Pods may take as long as they were given; nothing else says when it is done.
    async fn patience(&self, namespace: &Namespace) -> Duration {
        let name = namespace.key().name;
        let listed = self.client.namespaced::<Pod>(&name).list(&ListParams::default()).await;
        let graces = listed.iter().flat_map(|l| &l.items).filter(|p| !pods::is_finished(p));
        let grace = graces.filter_map(|p| p.spec.as_ref()?.termination_grace_period_seconds).max().unwrap_or(0);
        let deleted = namespace.meta().deletion_timestamp.as_ref().map(|t| t.0).unwrap_or_default();
        let passed = self.clock.since(deleted);
        let left = Duration::from_secs(u64::try_from(grace).unwrap_or(0)).saturating_sub(passed);
        // Short looks while it is young: what is left is mostly on its way.
        left.min(Duration::from_secs(2)).max((passed / 4).clamp(Duration::from_millis(200), Duration::from_secs(15)))
    }
}
