//! What the actor hears of the cluster, and what it does about it.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, ReplicationController, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use tokio::time::Instant;
use trireme_client::{Change, Client, Event, Informer, Known, Tasks, Wakes};

use super::Scheduler;
use crate::hints::ClusterEvent;
use crate::model::PodInfo;

/// What the scheduler watches.
#[derive(Debug, Clone)]
pub(super) struct Informers {
    pub(super) pods: Informer<Pod>,
    pub(super) nodes: Informer<Node>,
    pub(super) namespaces: Informer<Namespace>,
    pub(super) services: Informer<Service>,
    pub(super) replication_controllers: Informer<ReplicationController>,
    pub(super) replica_sets: Informer<ReplicaSet>,
    pub(super) stateful_sets: Informer<StatefulSet>,
    pub(super) budgets: Informer<PodDisruptionBudget>,
}

impl Informers {
    pub(super) fn start(client: &Client, tasks: &Tasks) -> Self {
        fn all<K: Known>(client: &Client, tasks: &Tasks) -> Informer<K> {
            Informer::builder(client).start(tasks)
        }
        // Pods that came to their end take no room.
        let pods = Informer::builder(client)
            .fields("status.phase!=Succeeded,status.phase!=Failed")
            .transform(|pod: &mut Pod| pod.metadata.managed_fields = None)
            .start(tasks);
        Self {
            pods,
            nodes: all(client, tasks),
            namespaces: all(client, tasks),
            services: all(client, tasks),
            replication_controllers: all(client, tasks),
            replica_sets: all(client, tasks),
            stateful_sets: all(client, tasks),
            budgets: all(client, tasks),
        }
    }

    /// Waits until all have seen what the server knows now, which is no less than the claim that was just won.
    pub(super) async fn refresh(&self) {
        tokio::join!(
            self.pods.refresh(),
            self.nodes.refresh(),
            self.namespaces.refresh(),
            self.services.refresh(),
            self.replication_controllers.refresh(),
            self.replica_sets.refresh(),
            self.stateful_sets.refresh(),
            self.budgets.refresh(),
        );
    }
}

// === impl Scheduler ===

impl Scheduler {
    pub(super) fn node(&mut self, event: Event<Node>) {
        let wakes = Wakes::from(event.cause);
        match event.change {
            Change::Added(node) | Change::Updated { new: node, .. } => {
                let name = node.metadata.name.clone().unwrap_or_default();
                let happened = ClusterEvent::node(self.cache.node(&name), &node);
                self.cache.set_node(node);
                if let Some(happened) = happened {
                    self.happened(&happened, &wakes);
                }
            }
            Change::Deleted(node) => {
                let name = node.metadata.name.clone().unwrap_or_default();
                if let Some(known) = self.cache.node(&name).cloned() {
                    self.cache.remove_node(&name);
                    self.happened(&ClusterEvent::NodeGone(known), &wakes);
                }
            }
        }
    }

    pub(super) fn namespace(&mut self, event: Event<Namespace>) {
        let namespace = event.change.object().clone();
        let name = namespace.metadata.name.as_deref().unwrap_or_default();
        match event.change {
            Change::Deleted(_) => self.cache.remove_namespace(name),
            _ => self.cache.set_namespace(name, namespace.metadata.labels.as_ref()),
        }
    }

    pub(super) fn pod(&mut self, event: Event<Pod>) {
        let wakes = Wakes::from(event.cause);
        match event.change {
            Change::Added(pod) | Change::Updated { new: pod, .. } => {
                let pod = Arc::new(PodInfo::new(pod));
                if pod.node_name().is_empty() { self.pending(pod, wakes) } else { self.bound(pod, &wakes) }
            }
            Change::Deleted(pod) => {
                let uid = pod.metadata.uid.clone().unwrap_or_default();
                self.queue.remove(&uid);
                self.cache.unnominate(&uid);
                if let Some(pod) = self.cache.remove_pod(&uid) {
                    let node = self.cache.node(pod.node_name()).cloned();
                    self.happened(&ClusterEvent::PodGone { pod, node }, &wakes);
                }
            }
        }
    }

    fn bound(&mut self, pod: Arc<PodInfo>, wakes: &Wakes) {
        let uid = pod.uid().to_owned();
        self.queue.remove(&uid);
        self.cache.unnominate(&uid);
        let known = self.cache.pod(&uid).filter(|_| !self.cache.is_assumed(&uid)).cloned();
        self.cache.set_pod(pod.clone());
        match known {
            None => self.happened(&ClusterEvent::PodBound(pod), wakes),
            Some(old) if pod.is_terminating() && !old.is_terminating() => {
                // A victim goes: whoever it makes room for has that said.
                let node = pod.node_name();
                self.queue.look_again(Instant::now(), |waiting| waiting.nominated_node() == node);
            }
            Some(old) if old.labels() != pod.labels() || old.requests != pod.requests => {
                self.happened(&ClusterEvent::PodChanged { old, new: pod }, wakes);
            }
            Some(_) => {}
        }
    }

    fn pending(&mut self, pod: Arc<PodInfo>, wakes: Wakes) {
        let uid = pod.uid().to_owned();
        let ours = pod.spec().and_then(|spec| spec.scheduler_name.as_deref()).unwrap_or("default-scheduler");
        if ours != self.parts.scheduler_name {
            return;
        }
        if pod.is_terminating() {
            self.queue.remove(&uid);
            return;
        }
        // Its binding is on the way. If that fails it is this version that waits; if it was done, and only not seen yet,
        // nothing of it waits any more.
        if self.cache.is_assumed(&uid) {
            self.queue.changed_in_flight(&pod);
            return;
        }
        self.nominated(&pod);
        let profile = &self.profile;
        self.queue.set(pod, wakes, Instant::now(), |plugins, old, new| {
            let itself = ClusterEvent::PodItself { old: old.clone(), new: new.clone() };
            profile.helps(plugins, new, &itself)
        });
    }

    /// Room is kept where others make room for the pod.
    pub(super) fn nominated(&mut self, pod: &Arc<PodInfo>) {
        match pod.nominated_node() {
            "" => self.cache.unnominate(pod.uid()),
            node => self.cache.nominate(pod.clone(), node),
        }
    }

    fn happened(&mut self, event: &ClusterEvent, wakes: &Wakes) {
        let profile = &self.profile;
        self.queue.happened(wakes, Instant::now(), |plugins, pod| profile.helps(plugins, pod, event));
    }
}
