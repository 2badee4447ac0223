//! Endpoints: the older form of a Service's addresses, for clients that do not know slices.

mod plan;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use trireme_client::{
    Action, Client, Controller, DeleteParams, Object, ObjectKey, PostParams, ReconcileError, Reconciler, Store,
};

use crate::cluster::Cluster;
use crate::endpointslice::{selector, services_of};

const NAME: &str = "endpoints";

struct EndpointsOfServices {
    client: Client,
    services: Store<Service>,
    pods: Store<Pod>,
    endpoints: Store<Endpoints>,
}

/// The controller and its work.
pub(crate) fn controller(cluster: &Cluster) -> (Controller, Arc<dyn Reconciler>) {
    let (services, pods, endpoints) = (cluster.services(), cluster.pods(), cluster.endpoints());
    let all = services.store();
    let controller = cluster
        .controller(NAME)
        .watch(&services, |service| vec![service.key()])
        .watch_changes(&pods, move |change| services_of(change, &all))
        .watch(&endpoints, |endpoints| vec![endpoints.key()]);
    let reconciler = EndpointsOfServices {
        client: cluster.client.clone(),
        services: services.store(),
        pods: pods.store(),
        endpoints: endpoints.store(),
    };
    (controller, Arc::new(reconciler))
}

#[async_trait::async_trait]
impl Reconciler for EndpointsOfServices {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let api = self.client.namespaced::<Endpoints>(&key.namespace);
        let existing = self.endpoints.get(key);
        let Some(service) = self.services.get(key) else {
            let leader = existing.as_ref().is_some_and(|e| {
                // Locks of old clients are Endpoints without a Service: they are somebody's, and not ours.
                let annotations = e.metadata.annotations.as_ref();
                annotations.is_some_and(|a| a.contains_key("control-plane.alpha.kubernetes.io/leader"))
            });
            if let Some(existing) = existing.filter(|_| !leader) {
                match api.delete(&key.name, &DeleteParams::uid(existing.uid())).await {
                    Err(error) if error.is_not_found() => {}
                    other => drop(other?),
                }
            }
            return Ok(Action::Done);
        };
        let Some(selector) = selector(&service) else { return Ok(Action::Done) };
        let mut pods = self.pods.in_namespace(&key.namespace);
        pods.retain(|p| selector.matches(&p.metadata.labels));
        let Some(next) = plan::plan(&service, &pods, existing.as_deref()) else { return Ok(Action::Done) };
        let written = match existing {
            Some(_) => api.update(&PostParams::default(), &next).await,
            None => api.create(&PostParams::default(), &next).await,
        };
        match written {
            Err(error) if error.is_namespace_terminating() => Ok(Action::Done),
            other => other.map(|_| Action::Done).map_err(Into::into),
        }
    }
}
