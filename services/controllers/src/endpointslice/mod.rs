//! EndpointSlices: where the pods of a Service are.

mod plan;
pub(crate) mod ports;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use trireme_client::{
    Action, Change, Client, Controller, DeleteParams, Object, ObjectKey, PostParams, ReconcileError, Reconciler, Store,
};
use trireme_machinery::labels::Selector;

use crate::cluster::{Cluster, SLICE_SERVICE};
use plan::Observed;

const NAME: &str = "endpointslice";

struct Slices {
    client: Client,
    services: Store<Service>,
    pods: Store<Pod>,
    nodes: Store<Node>,
    slices: Store<EndpointSlice>,
    most: usize,
}

/// The controller and its work.
pub(crate) fn controller(cluster: &Cluster) -> (Controller, Arc<dyn Reconciler>) {
    let (services, pods, nodes, slices) = (cluster.services(), cluster.pods(), cluster.nodes(), cluster.slices());
    let all = services.store();
    let controller = cluster
        .controller(NAME)
        .watch(&services, |service| vec![service.key()])
        .watch_changes(&pods, move |change| services_of(change, &all))
        .watch(&slices, service_of)
        .reads(&nodes);
    let reconciler = Slices {
        client: cluster.client.clone(),
        services: services.store(),
        pods: pods.store(),
        nodes: nodes.store(),
        slices: slices.store(),
        most: cluster.config.max_endpoints_per_slice.max(1),
    };
    (controller, Arc::new(reconciler))
}

/// The Services that select a pod, before or after its change. A change that no endpoint shows wakes nobody.
pub(crate) fn services_of(change: &Change<Pod>, services: &Store<Service>) -> Vec<ObjectKey> {
    let states: Vec<&Pod> = match change {
        Change::Updated { old, new } if !shows(old, new) => return Vec::new(),
        Change::Updated { old, new } => vec![old, new],
        Change::Added(pod) | Change::Deleted(pod) => vec![pod],
    };
    let namespace = states[0].metadata.namespace.clone().unwrap_or_default();
    services
        .in_namespace(&namespace)
        .into_iter()
        .filter(|s| selector(s).is_some_and(|selector| states.iter().any(|p| selector.matches(&p.metadata.labels))))
        .map(|s| s.key())
        .collect()
}

fn shows(old: &Pod, new: &Pod) -> bool {
    let seen = |pod: &Pod| {
        (
            ports::addresses(pod),
            crate::common::pods::is_ready(pod),
            crate::common::pods::is_finished(pod),
            pod.is_deleting(),
            pod.metadata.labels.clone(),
            pod.spec.as_ref().map(|s| (s.node_name.clone(), s.hostname.clone(), s.subdomain.clone())),
        )
    };
    seen(old) != seen(new)
}

fn service_of(slice: &EndpointSlice) -> Vec<ObjectKey> {
    let labels = slice.metadata.labels.clone().unwrap_or_default();
    if labels.get(plan::MANAGED_BY).is_none_or(|m| m != plan::MANAGER) {
        return Vec::new();
    }
    let namespace = slice.metadata.namespace.clone().unwrap_or_default();
    labels.get(plan::SERVICE_NAME).map(|name| ObjectKey::new(namespace, name)).into_iter().collect()
}

/// The pods of a Service; `None`: somebody else says where its endpoints are.
pub(crate) fn selector(service: &Service) -> Option<Selector> {
    let spec = service.spec.as_ref()?;
    if spec.type_.as_deref() == Some("ExternalName") {
        return None;
    }
    let labels = spec.selector.as_ref().filter(|s| !s.is_empty())?;
    Some(Selector::from_map(labels))
}

/// When something that endpoints show last changed: the newest of the Service's creation and its pods' readiness.
fn trigger(service: &Service, pods: &[Arc<Pod>]) -> Option<String> {
    let created = service.metadata.creation_timestamp.as_ref().map(|t| t.0);
    let ready = pods.iter().filter_map(|p| {
        let condition = crate::common::conditions::of_pod(p, "Ready")?;
        condition.last_transition_time.as_ref().map(|t| t.0)
    });
    created.into_iter().chain(ready).max().map(|t| t.to_string())
}

#[async_trait::async_trait]
impl Reconciler for Slices {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        // Slices of a Service that is gone go with it, by their owner reference.
        let Some(service) = self.services.get(key).filter(|s| !s.is_deleting()) else { return Ok(Action::Done) };
        let Some(selector) = selector(&service) else { return Ok(Action::Done) };
        let mut pods = self.pods.in_namespace(&key.namespace);
        pods.retain(|p| selector.matches(&p.metadata.labels));
        let mut slices = self.slices.by_index(SLICE_SERVICE, &key.to_string());
        slices.retain(|s| !service_of(s).is_empty() && !s.is_deleting());
        let node = |name: &str| self.nodes.find("", name);
        let plan = plan::plan(&Observed {
            service: &service,
            pods: &pods,
            slices: &slices,
            node: &node,
            most: self.most,
            trigger: trigger(&service, &pods),
        });
        let api = self.client.namespaced::<EndpointSlice>(&key.namespace);
        for slice in &plan.create {
            match api.create_certainly(slice).await {
                Err(error) if error.is_namespace_terminating() => return Ok(Action::Done),
                other => drop(other?),
            }
        }
        for slice in &plan.update {
            api.update(&PostParams::default(), slice).await?;
        }
        for slice in &plan.delete {
            match api.delete(&slice.key().name, &DeleteParams::uid(slice.uid())).await {
                Err(error) if error.is_not_found() => {}
                other => drop(other?),
            }
        }
        if plan.unknown_nodes.is_empty() {
            return Ok(Action::Done);
        }
        Err(ReconcileError::other(format!(
            "pods are on nodes that are not known yet: {}",
            plan.unknown_nodes.join(", ")
        )))
    }
}
