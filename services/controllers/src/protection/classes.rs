//! VolumeAttributesClasses stay while a claim or a volume names them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use trireme_client::{Action, Change, Client, Controller, Object, ObjectKey, ReconcileError, Reconciler, Store};

use super::{concerns, plan, write};
use crate::cluster::Cluster;

const NAME: &str = "volumeattributesclass-protection";
const FINALIZER: &str = "kubernetes.io/vac-protection";

struct Classes {
    client: Client,
    classes: Store<VolumeAttributesClass>,
    claims: Store<PersistentVolumeClaim>,
    volumes: Store<PersistentVolume>,
}

/// The controller and its work.
pub(crate) fn controller(cluster: &Cluster) -> (Controller, Arc<dyn Reconciler>) {
    let (classes, claims, volumes) = (cluster.volume_classes(), cluster.claims(), cluster.volumes());
    let controller = cluster
        .controller(NAME)
        .watch(&classes, |class| if concerns(class, FINALIZER) { vec![class.key()] } else { Vec::new() })
        .watch_changes(&claims, |change| released(change, of_claim))
        .watch_changes(&volumes, |change| released(change, of_volume));
    let reconciler = Classes {
        client: cluster.client.clone(),
        classes: classes.store(),
        claims: claims.store(),
        volumes: volumes.store(),
    };
    (controller, Arc::new(reconciler))
}

/// The classes of a claim: the one that is wanted, the one it has, and the one it is just getting.
fn of_claim(claim: &PersistentVolumeClaim) -> Vec<&str> {
    let status = claim.status.as_ref();
    let wanted = claim.spec.as_ref().and_then(|s| s.volume_attributes_class_name.as_deref());
    let has = status.and_then(|s| s.current_volume_attributes_class_name.as_deref());
    let next = status.and_then(|s| s.modify_volume_status.as_ref()?.target_volume_attributes_class_name.as_deref());
    [wanted, has, next].into_iter().flatten().filter(|name| !name.is_empty()).collect()
}

fn of_volume(volume: &PersistentVolume) -> Vec<&str> {
    let name = volume.spec.as_ref().and_then(|s| s.volume_attributes_class_name.as_deref());
    name.into_iter().filter(|name| !name.is_empty()).collect()
}

/// The classes that are named no more after a change.
fn released<K>(change: &Change<K>, names: impl Fn(&K) -> Vec<&str>) -> Vec<ObjectKey> {
    let (before, now) = match change {
        Change::Added(_) => return Vec::new(),
        Change::Updated { old, new } => (names(old), names(new)),
        Change::Deleted(old) => (names(old), Vec::new()),
    };
    before.into_iter().filter(|name| !now.contains(name)).map(ObjectKey::cluster).collect()
}

#[async_trait::async_trait]
impl Reconciler for Classes {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let Some(class) = self.classes.get(key) else { return Ok(Action::Done) };
        let is_used = || {
            let name = key.name.as_str();
            self.volumes.list().iter().any(|volume| of_volume(volume).contains(&name))
                || self.claims.list().iter().any(|claim| of_claim(claim).contains(&name))
        };
        if let Some(step) = plan(&*class, FINALIZER, is_used) {
            write(&self.client.api(), &*class, FINALIZER, step).await?;
        }
        Ok(Action::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn claim(spec: &Value, status: &Value) -> PersistentVolumeClaim {
        serde_json::from_value(json!({"metadata": {"name": "c"}, "spec": spec, "status": status})).unwrap()
    }

    #[test]
    fn a_claim_names_what_it_wants_has_and_gets() {
        let all = claim(
            &json!({"volumeAttributesClassName": "gold"}),
            &json!({"currentVolumeAttributesClassName": "silver",
                "modifyVolumeStatus": {"status": "InProgress", "targetVolumeAttributesClassName": "bronze"}}),
        );
        assert_eq!(of_claim(&all), ["gold", "silver", "bronze"]);
        assert!(of_claim(&claim(&json!({"volumeAttributesClassName": ""}), &json!({}))).is_empty());
    }

    #[test]
    fn classes_wake_when_they_are_named_no_more() {
        let of = |name: &str| Arc::new(claim(&json!({"volumeAttributesClassName": name}), &json!({})));
        let released = |change: &Change<PersistentVolumeClaim>| released(change, of_claim);
        assert_eq!(released(&Change::Updated { old: of("gold"), new: of("tin") }), [ObjectKey::cluster("gold")]);
        assert_eq!(released(&Change::Deleted(of("tin"))), [ObjectKey::cluster("tin")]);
        assert!(released(&Change::Updated { old: of("tin"), new: of("tin") }).is_empty());
        assert!(released(&Change::Added(of("tin"))).is_empty());
    }
}
