//! How long kubelets may keep what pods read, by the size of the cluster: an annotation of each node.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::Node;
use serde_json::json;
use trireme_client::{
    Action, Client, Controller, Object, ObjectKey, Patch, PatchParams, ReconcileError, Reconciler, Store,
};

use crate::cluster::Cluster;

const NAME: &str = "ttl";
const ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";
/// (from this size on, up to this size, seconds); the steps overlap, so that a size between two changes nothing.
const STEPS: [(usize, usize, u32); 5] =
    [(0, 100, 0), (90, 500, 15), (450, 1000, 30), (900, 2000, 60), (1800, usize::MAX, 300)];

/// The step of a size, coming from another.
fn step(mut at: usize, size: usize) -> usize {
    while size > STEPS[at].1 && at + 1 < STEPS.len() {
        at += 1;
    }
    while size < STEPS[at].0 && at > 0 {
        at -= 1;
    }
    at
}

struct Ttl {
    client: Client,
    nodes: Store<Node>,
    step: AtomicUsize,
}

/// The controller and its work.
pub(crate) fn controller(cluster: &Cluster) -> (Controller, Arc<dyn Reconciler>) {
    let nodes = cluster.nodes();
    let controller = cluster.controller(NAME).watch(&nodes, |node| vec![node.key()]);
    let reconciler = Ttl { client: cluster.client.clone(), nodes: nodes.store(), step: AtomicUsize::new(0) };
    (controller, Arc::new(reconciler))
}

#[async_trait::async_trait]
impl Reconciler for Ttl {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let Some(node) = self.nodes.get(key) else { return Ok(Action::Done) };
        let at = step(self.step.load(Ordering::Relaxed), self.nodes.len());
        self.step.store(at, Ordering::Relaxed);
        let wanted = STEPS[at].2.to_string();
        if node.metadata.annotations.as_ref().and_then(|a| a.get(ANNOTATION)) == Some(&wanted) {
            return Ok(Action::Done);
        }
        let patch = Patch::Merge(json!({"metadata": {"annotations": {ANNOTATION: wanted}}}));
        match self.client.api::<Node>().patch(&key.name, &PatchParams::default(), &patch).await {
            Err(error) if error.is_not_found() => Ok(Action::Done),
            other => other.map(|_| Action::Done).map_err(Into::into),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_overlap() {
        assert_eq!(step(0, 100), 0);
        assert_eq!(step(0, 101), 1);
        assert_eq!(step(1, 95), 1);
        assert_eq!(step(1, 89), 0);
        assert_eq!(step(0, 5000), 4);
    }
}
