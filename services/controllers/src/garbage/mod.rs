//! The garbage collector: objects whose owners are gone are deleted, owners that wait for what they own are let go when it
//! is gone, and what is to be orphaned is let go first.
//!
//! It follows the metadata of every resource of the server; when the server gets others, it begins anew with them.

mod graph;
mod plan;

use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};
use std::sync::Arc;
use trireme_client::{
    Action, ApiResource, Client, Controller, DeleteParams, Error, EventRecorder, EventType, MetaObject, Object,
    ObjectKey, Patch, PatchParams, Preconditions, ReconcileError, Reconciler, WorkQueue, backoff::Backoff,
};

use crate::cluster::Cluster;
use graph::{Found, Graph, followed, has_finalizer, key_of, owners, waits_for_dependents};
use plan::{Owner, Step};

const NAME: &str = "garbage-collector";
/// How often the server is asked for its resources.
const DISCOVERY: Duration = Duration::from_secs(30);

/// Runs until dropped.
pub(crate) async fn run(cluster: Cluster, workers: usize) {
    let events = cluster.events("garbage-collector-controller");
    let mut graph: Option<Graph> = None;
    let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(10));
    loop {
        let served = match cluster.client.discover().await {
            Ok(found) => found.resources,
            Err(error) => {
                tracing::info!(%error, "the garbage collector cannot ask for resources");
                tokio::time::sleep(backoff.wait()).await;
                continue;
            }
        };
        backoff.reset();
        let resources = followed(&served);
        let next = Graph::new(cluster.reader(), &cluster.tasks, &served, graph.as_ref());
        let (controller, collector) = controller(&cluster, &next, &events);
        graph = Some(next);
        tokio::select! {
            () = controller.run(workers, collector) => {}
            () = changed(&cluster.client, resources) => tracing::info!("the server has other resources now"),
        }
    }
}

/// Waits until the server has other resources than these.
async fn changed(client: &Client, resources: Vec<ApiResource>) {
    loop {
        tokio::time::sleep(DISCOVERY).await;
        // A group that cannot be asked now is not a group that is gone.
        match client.discover().await {
            Ok(found) if found.failed.is_empty() && followed(&found.resources) != resources => return,
            _ => {}
        }
    }
}

fn controller(cluster: &Cluster, graph: &Graph, events: &EventRecorder) -> (Controller, Arc<dyn Reconciler>) {
    let mut controller = cluster.controller(NAME);
    for informer in graph.informers() {
        let (graph, resource) = (graph.clone(), informer.resource().clone());
        controller = controller.watch_changes(informer, move |change| graph.woken(&resource, change));
    }
    let collector = Collector {
        client: cluster.client.clone(),
        events: events.clone(),
        graph: graph.clone(),
        queue: controller.queue(),
    };
    (controller, Arc::new(collector))
}

struct Collector {
    client: Client,
    events: EventRecorder,
    graph: Graph,
    queue: WorkQueue<ObjectKey>,
}

#[async_trait::async_trait]
impl Reconciler for Collector {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let Some(item) = self.graph.get(key) else { return Ok(Action::Done) };
        if item.object.is_deleting() {
            let dependents = self.graph.dependents(item.object.uid());
            let step = plan::leaving(&item.object, &dependents);
            self.leave(&item, &dependents, step).await
        } else {
            self.stay(&item).await
        }
    }
}

impl Collector {
    async fn leave(&self, item: &Found, dependents: &[Found], step: Step) -> Result<Action, ReconcileError> {
        match step {
            Step::Foreground(blocking) => {
                for at in blocking {
                    let dependent = &dependents[at];
                    if !waits_for_dependents(&dependent.object) && !dependent.object.is_deleting() {
                        self.queue.add(
                            key_of(&dependent.resource, &dependent.object.key()),
                            trireme_client::Wakes::default(),
                        );
                    }
                }
                // The last of them wakes it when it goes.
                Ok(Action::Done)
            }
            Step::Orphan(all) => {
                let owner = [item.object.uid().to_owned()];
                let results = join_all(all.iter().map(|at| self.disown(&dependents[*at], &owner))).await;
                results.into_iter().collect::<Result<Vec<()>, _>>()?;
                // Looks again when it has seen that they are let go.
                Ok(Action::RequeueAfter(Duration::from_millis(1)))
            }
            Step::Finish(finalizer) => self.finish(item, finalizer).await,
            _ => Ok(Action::Done),
        }
    }

    async fn stay(&self, item: &Found) -> Result<Action, ReconcileError> {
        let mut found = Vec::new();
        for reference in owners(&item.object) {
            found.push(self.look_up(item, reference).await?);
        }
        let waiting: Vec<bool> =
            self.graph.dependents(item.object.uid()).iter().map(|d| waits_for_dependents(&d.object)).collect();
        match plan::staying(&item.object, &found, &waiting) {
            Step::Disown(uids) => self.disown(item, &uids).await?,
            Step::Delete { how, unblock } => {
                if unblock {
                    self.unblock(item).await?;
                }
                let params = DeleteParams {
                    // Its owners are as they were looked at only in this version.
                    preconditions: Some(Preconditions {
                        uid: item.object.metadata.uid.clone(),
                        resource_version: item.object.metadata.resource_version.clone().filter(|_| !unblock),
                    }),
                    propagation_policy: Some(how),
                    ..DeleteParams::default()
                };
                match self.api(item).delete(&item.object.key().name, &params).await {
                    Err(error) if error.is_not_found() => {}
                    // It changed meanwhile (a status, most often): what it is now is looked at when it is seen.
                    Err(error) if error.is_conflict() => return Err(error.into()),
                    other => drop(other?),
                }
            }
            _ => {}
        }
        Ok(Action::Done)
    }

    fn api(&self, item: &Found) -> trireme_client::Api<MetaObject> {
        self.client.metadata(&item.resource, item.object.metadata.namespace.as_deref().unwrap_or_default())
    }

    /// The informers know most owners; that one is gone is believed only if the server says so itself.
    async fn look_up(&self, item: &Found, reference: &OwnerReference) -> Result<Owner, Error> {
        let state = |owner: &MetaObject| if waits_for_dependents(owner) { Owner::Waiting } else { Owner::Solid };
        let namespace = item.object.metadata.namespace.clone().unwrap_or_default();
        if let Some(owner) = self.graph.known_owner(reference, &namespace) {
            return Ok(state(&owner));
        }
        let Some(resource) = self.graph.resource_of(reference) else { return Ok(Owner::Unknown) };
        if resource.namespaced && namespace.is_empty() {
            // A cluster-scoped object cannot be owned by one in a namespace; nobody can say which was meant.
            return Ok(Owner::Unknown);
        }
        let namespace = if resource.namespaced { namespace.as_str() } else { "" };
        let owner = self.client.metadata(resource, namespace).get_opt(&reference.name).await?;
        match owner.filter(|o| o.uid() == reference.uid) {
            Some(owner) => Ok(state(&owner)),
            None => {
                if resource.namespaced && self.graph.lies_elsewhere(reference) {
                    self.tell_namespace(item, reference, namespace);
                }
                Ok(Owner::Absent)
            }
        }
    }

    /// An owner in another namespace is none.
    fn tell_namespace(&self, item: &Found, reference: &OwnerReference, namespace: &str) {
        let meta = &item.object.metadata;
        let about = ObjectReference {
            api_version: Some(item.resource.api_version()),
            kind: Some(item.resource.kind.clone()),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            ..ObjectReference::default()
        };
        let OwnerReference { api_version, kind, name, uid, .. } = reference;
        let text = format!(
            "ownerRef [{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}] does not exist in namespace {namespace:?}"
        );
        self.events.event_for(about, EventType::Warning, "OwnerRefInvalidNamespace", text);
    }

    /// Takes owners out of an object's references.
    async fn disown(&self, item: &Found, uids: &[String]) -> Result<(), Error> {
        let rest: Vec<_> = owners(&item.object).iter().filter(|r| !uids.contains(&r.uid)).cloned().collect();
        self.patch_owners(item, rest).await
    }

    async fn unblock(&self, item: &Found) -> Result<(), Error> {
        let mut all = owners(&item.object).to_vec();
        all.iter_mut().for_each(|r| r.block_owner_deletion = Some(false));
        self.patch_owners(item, all).await
    }

    async fn patch_owners(&self, item: &Found, owners: Vec<OwnerReference>) -> Result<(), Error> {
        let owners = if owners.is_empty() { Value::Null } else { json!(owners) };
        // The whole list is written: only if nobody changed the object meanwhile.
        let meta = &item.object.metadata;
        let patch = json!({"metadata": {
            "uid": meta.uid, "resourceVersion": meta.resource_version, "ownerReferences": owners,
        }});
        match self.api(item).patch(&item.object.key().name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Err(error) if error.is_not_found() => Ok(()),
            other => other.map(drop),
        }
    }

    async fn finish(&self, item: &Found, finalizer: &str) -> Result<Action, ReconcileError> {
        let name = item.object.key().name;
        let api = self.api(item);
        // Dependents may have come since: the object itself is looked at again before it is let go.
        let Some(fresh) = api.get_opt(&name).await? else { return Ok(Action::Done) };
        if fresh.uid() != item.object.uid() || !has_finalizer(&fresh, finalizer) {
            return Ok(Action::Done);
        }
        let rest: Vec<_> = fresh.metadata.finalizers.iter().flatten().filter(|f| *f != finalizer).collect();
        let rest = if rest.is_empty() { Value::Null } else { json!(rest) };
        let patch = json!({"metadata": {
            "uid": fresh.metadata.uid, "resourceVersion": fresh.metadata.resource_version, "finalizers": rest,
        }});
        match api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Err(error) if error.is_not_found() => Ok(Action::Done),
            other => other.map(|_| Action::Done).map_err(Into::into),
        }
    }
}
