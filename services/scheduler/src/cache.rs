//! What the scheduler knows of the cluster: nodes, the pods on them, and the pods that it has just placed itself.
//!
//! A pod that was placed is *assumed*: it takes its room on the node at once, long before the binding is seen in the
//! watch. Seeing it confirms it; a binding that fails forgets it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;

use crate::model::{LabelMap, NodeInfo, PodInfo};
use crate::snapshot::Snapshot;

/// What the scheduler knows of the cluster.
#[derive(Debug, Default)]
pub struct Cache {
    nodes: BTreeMap<String, Arc<NodeInfo>>,
    /// Pods by uid, those on nodes that are not known too.
    pods: HashMap<String, Placed>,
    /// Pods that others make room for, by uid, with the node.
    nominated: HashMap<String, (Arc<PodInfo>, String)>,
    namespaces: Arc<BTreeMap<String, LabelMap>>,
}

#[derive(Debug)]
struct Placed {
    pod: Arc<PodInfo>,
    node: String,
    assumed: bool,
}

// === impl Cache ===

impl Cache {
    /// A node came or changed.
    pub fn set_node(&mut self, node: Arc<Node>) {
        let mut info = NodeInfo::new(node);
        match self.nodes.get(info.name()) {
            Some(known) => known.pods().iter().for_each(|pod| info.add_pod(pod.clone())),
            None => {
                let here = self.pods.values().filter(|placed| placed.node == info.name());
                let mut here: Vec<Arc<PodInfo>> = here.map(|placed| placed.pod.clone()).collect();
                here.sort_by(|a, b| a.uid().cmp(b.uid()));
                here.into_iter().for_each(|pod| info.add_pod(pod));
            }
        }
        self.nodes.insert(info.name().to_owned(), Arc::new(info));
    }

    /// A node went.
    pub fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    /// A node as it is known.
    pub fn node(&self, name: &str) -> Option<&Arc<NodeInfo>> {
        self.nodes.get(name)
    }

    /// A bound pod came or changed; it may have been assumed before.
    pub fn set_pod(&mut self, pod: Arc<PodInfo>) {
        let node = pod.node_name().to_owned();
        self.place(pod, node, false);
    }

    /// A pod was placed, and its binding is on the way.
    pub fn assume(&mut self, pod: Arc<PodInfo>, node: &str) {
        self.place(pod, node.to_owned(), true);
    }

    /// A binding failed: unless the pod was seen bound meanwhile, it takes no room any more.
    pub fn forget(&mut self, uid: &str) {
        if self.pods.get(uid).is_some_and(|placed| placed.assumed) {
            self.remove_pod(uid);
        }
    }

    /// All assumed pods are forgotten: their bindings are another scheduler's business now.
    pub fn forget_all(&mut self) {
        let assumed: Vec<String> =
            self.pods.iter().filter(|(_, placed)| placed.assumed).map(|(uid, _)| uid.clone()).collect();
        assumed.iter().for_each(|uid| {
            self.remove_pod(uid);
        });
    }

    /// Whether a pod is assumed.
    pub fn is_assumed(&self, uid: &str) -> bool {
        self.pods.get(uid).is_some_and(|placed| placed.assumed)
    }

    /// A bound or assumed pod.
    pub fn pod(&self, uid: &str) -> Option<&Arc<PodInfo>> {
        self.pods.get(uid).map(|placed| &placed.pod)
    }

    /// Others make room for the pod on the node: pods that are not more important do without it.
    pub fn nominate(&mut self, pod: Arc<PodInfo>, node: &str) {
        self.nominated.insert(pod.uid().to_owned(), (pod, node.to_owned()));
    }

    /// Nobody makes room for the pod any more.
    pub fn unnominate(&mut self, uid: &str) {
        self.nominated.remove(uid);
    }

    /// A pod went.
    pub fn remove_pod(&mut self, uid: &str) -> Option<Arc<PodInfo>> {
        let placed = self.pods.remove(uid)?;
        if let Some(node) = self.nodes.get_mut(&placed.node) {
            Arc::make_mut(node).remove_pod(uid);
        }
        Some(placed.pod)
    }

    fn place(&mut self, pod: Arc<PodInfo>, node: String, assumed: bool) {
        self.remove_pod(pod.uid());
        if let Some(info) = self.nodes.get_mut(&node) {
            Arc::make_mut(info).add_pod(pod.clone());
        }
        self.pods.insert(pod.uid().to_owned(), Placed { pod, node, assumed });
    }

    /// A namespace came or changed its labels.
    pub fn set_namespace(&mut self, name: &str, labels: Option<&LabelMap>) {
        Arc::make_mut(&mut self.namespaces).insert(name.to_owned(), labels.cloned().unwrap_or_default());
    }

    /// A namespace went.
    pub fn remove_namespace(&mut self, name: &str) {
        Arc::make_mut(&mut self.namespaces).remove(name);
    }

    /// The cluster as it is for a pod: with the room taken that is made for pods at least as important.
    pub fn snapshot_for(&self, pod: &PodInfo) -> Snapshot {
        let mut snapshot = self.snapshot();
        for (uid, (other, node)) in &self.nominated {
            let counts = uid != pod.uid() && other.priority() >= pod.priority() && !self.pods.contains_key(uid);
            if let Some(node) = snapshot.node(node).filter(|_| counts) {
                let mut with = NodeInfo::clone(node);
                with.add_pod(other.clone());
                snapshot = snapshot.with_node(with);
            }
        }
        snapshot
    }

    /// The cluster as it is now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.nodes.values().cloned().collect(), self.namespaces.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{node, pod};

    #[test]
    fn an_assumed_pod_takes_room_until_it_is_confirmed_or_forgotten() {
        let mut cache = Cache::default();
        cache.set_node(node("n1").build());
        let placed = pod("p").cpu("1").info();
        cache.assume(placed.clone(), "n1");
        let used = |cache: &Cache| cache.snapshot().node("n1").unwrap().requested().milli_cpu;
        assert_eq!(used(&cache), 1000);
        cache.set_pod(pod("p").cpu("1").on("n1").info());
        assert_eq!(used(&cache), 1000);
        cache.forget(placed.uid());
        assert_eq!(used(&cache), 1000, "a confirmed pod is not forgotten");
        cache.remove_pod(placed.uid());
        assert_eq!(used(&cache), 0);
        cache.assume(placed.clone(), "n1");
        cache.forget(placed.uid());
        assert_eq!(used(&cache), 0);
    }

    #[test]
    fn room_that_is_made_is_for_the_more_important() {
        let mut cache = Cache::default();
        cache.set_node(node("n1").build());
        cache.nominate(pod("high").cpu("3").priority(9).info(), "n1");
        let used = |name: &str, priority| {
            let snapshot = cache.snapshot_for(&pod(name).priority(priority).info());
            snapshot.node("n1").unwrap().requested().milli_cpu
        };
        assert_eq!(used("low", 1), 3000);
        assert_eq!(used("higher", 10), 0);
        assert_eq!(used("high", 9), 0);
    }

    #[test]
    fn a_node_finds_the_pods_that_came_before_it() {
        let mut cache = Cache::default();
        cache.set_pod(pod("p").cpu("2").on("n1").info());
        cache.set_node(node("n1").build());
        assert_eq!(cache.snapshot().node("n1").unwrap().requested().milli_cpu, 2000);
        cache.set_node(node("n1").label("a", "b").build());
        assert_eq!(cache.snapshot().node("n1").unwrap().requested().milli_cpu, 2000);
        cache.remove_node("n1");
        assert!(cache.snapshot().nodes().is_empty());
    }
}
