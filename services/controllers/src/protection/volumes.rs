//! PersistentVolumes stay while they are bound to a claim.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolume;
use trireme_client::{Action, Client, Controller, Object, ObjectKey, ReconcileError, Reconciler, Store};

use super::{concerns, plan, write};
use crate::cluster::Cluster;

const NAME: &str = "persistentvolume-protection";
const FINALIZER: &str = "kubernetes.io/pv-protection";

struct Volumes {
    client: Client,
    volumes: Store<PersistentVolume>,
}

/// The controller and its work.
pub(crate) fn controller(cluster: &Cluster) -> (Controller, Arc<dyn Reconciler>) {
    let volumes = cluster.volumes();
    let controller = cluster
        .controller(NAME)
        .watch(&volumes, |volume| if concerns(volume, FINALIZER) { vec![volume.key()] } else { Vec::new() });
    let reconciler = Volumes { client: cluster.client.clone(), volumes: volumes.store() };
    (controller, Arc::new(reconciler))
}

/// Whoever binds it says so in its phase.
fn is_bound(volume: &PersistentVolume) -> bool {
    volume.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Bound")
}

#[async_trait::async_trait]
impl Reconciler for Volumes {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let Some(volume) = self.volumes.get(key) else { return Ok(Action::Done) };
        if let Some(step) = plan(&*volume, FINALIZER, || is_bound(&volume)) {
            write(&self.client.api(), &*volume, FINALIZER, step).await?;
        }
        Ok(Action::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protection::Step;
    use serde_json::json;

    #[test]
    fn only_a_bound_volume_is_kept() {
        let step = |phase: Option<&str>| {
            let volume: PersistentVolume = serde_json::from_value(json!({
                "metadata": {"name": "v", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [FINALIZER]},
                "status": {"phase": phase},
            }))
            .unwrap();
            plan(&volume, FINALIZER, || is_bound(&volume))
        };
        assert_eq!(step(Some("Bound")), None);
        for phase in [None, Some("Available"), Some("Released"), Some("Failed")] {
            assert_eq!(step(phase), Some(Step::Remove), "{phase:?}");
        }
    }
}
