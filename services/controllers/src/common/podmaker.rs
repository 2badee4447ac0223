//! Making and deleting the pods of an owner, with the events people know.

use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use trireme_client::{Client, DeleteParams, Error, EventRecorder, EventType, Known, Object};

use super::{names, owner};

/// Makes and deletes pods for owners of any kind.
#[derive(Debug, Clone)]
pub(crate) struct PodMaker {
    pub(crate) client: Client,
    pub(crate) events: EventRecorder,
}

/// The pod that a template describes, with a name that is chosen here once.
pub(crate) fn from_template<O: Known>(template: &PodTemplateSpec, owner: &O) -> Pod {
    let meta = template.metadata.clone().unwrap_or_default();
    let base = names::prefix(owner.meta().name.as_deref().unwrap_or_default());
    Pod {
        metadata: ObjectMeta {
            name: Some(names::generate(&base)),
            generate_name: Some(base),
            namespace: owner.meta().namespace.clone(),
            labels: meta.labels,
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            owner_references: Some(vec![owner::reference_to(owner)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

impl PodMaker {
    /// Makes so many pods: one, then twice as many each time as long as all succeed, so that a refusal (a quota) is met
    /// once and not a hundred times.
    pub(crate) async fn create<O: Known>(&self, owner: &O, count: usize, make: impl Fn() -> Pod) -> Result<(), Error> {
        let mut remaining = count;
        let mut batch = 1;
        while remaining > 0 {
            let size = batch.min(remaining);
            let pods: Vec<Pod> = (0..size).map(|_| make()).collect();
            let results = join_all(pods.iter().map(|pod| self.create_one(owner, pod))).await;
            results.into_iter().collect::<Result<Vec<()>, _>>()?;
            remaining -= size;
            batch *= 2;
        }
        Ok(())
    }

    /// Makes one pod.
    pub(crate) async fn create_one<O: Known>(&self, owner: &O, pod: &Pod) -> Result<(), Error> {
        let namespace = owner.meta().namespace.clone().unwrap_or_default();
        match self.client.namespaced::<Pod>(namespace).create_certainly(pod).await {
            Ok(made) => {
                let name = made.metadata.name.unwrap_or_default();
                self.events.event(owner, EventType::Normal, "SuccessfulCreate", format!("Created pod: {name}"));
                Ok(())
            }
            // Nothing can be made here any more, and that is as it should be.
            Err(error) if error.is_namespace_terminating() => Ok(()),
            Err(error) => {
                self.events.event(owner, EventType::Warning, "FailedCreate", format!("Error creating: {error}"));
                Err(error)
            }
        }
    }

    /// Deletes pods, all at once.
    pub(crate) async fn delete<O: Known>(&self, owner: &O, pods: &[Arc<Pod>]) -> Result<(), Error> {
        let results = join_all(pods.iter().map(|pod| self.delete_one(owner, pod))).await;
        results.into_iter().collect::<Result<Vec<()>, _>>().map(drop)
    }

    /// Deletes one pod.
    pub(crate) async fn delete_one<O: Known>(&self, owner: &O, pod: &Pod) -> Result<(), Error> {
        let key = pod.key();
        match self.client.namespaced::<Pod>(&key.namespace).delete(&key.name, &DeleteParams::uid(pod.uid())).await {
            Ok(_) => {
                self.events.event(owner, EventType::Normal, "SuccessfulDelete", format!("Deleted pod: {}", key.name));
                Ok(())
            }
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => {
                self.events.event(owner, EventType::Warning, "FailedDelete", format!("Error deleting: {error}"));
                Err(error)
            }
        }
    }
}
