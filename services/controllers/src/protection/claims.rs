//! PersistentVolumeClaims stay while a pod on a node uses them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use trireme_client::{
    Action, Change, Client, Controller, ListParams, Object, ObjectKey, ReconcileError, Reconciler, Store,
};

use super::{Step, concerns, plan, write};
use crate::cluster::{Cluster, POD_CLAIM};
use crate::common::{owner, pods};

const NAME: &str = "persistentvolumeclaim-protection";
const FINALIZER: &str = "kubernetes.io/pvc-protection";

struct Claims {
    client: Client,
    claims: Store<PersistentVolumeClaim>,
    pods: Store<Pod>,
}

/// The controller and its work.
pub(crate) fn controller(cluster: &Cluster) -> (Controller, Arc<dyn Reconciler>) {
    let (claims, pods) = (cluster.claims(), cluster.pods());
    let controller = cluster
        .controller(NAME)
        .watch(&claims, |claim| if concerns(claim, FINALIZER) { vec![claim.key()] } else { Vec::new() })
        .watch_changes(&pods, released);
    let reconciler = Claims { client: cluster.client.clone(), claims: claims.store(), pods: pods.store() };
    (controller, Arc::new(reconciler))
}

/// The claims that a change of a pod may have set free.
fn released(change: &Change<Pod>) -> Vec<ObjectKey> {
    let gone = match change {
        Change::Added(_) => return Vec::new(),
        Change::Deleted(pod) => pod,
        // Another one of this name took its place.
        Change::Updated { old, new } if old.uid() != new.uid() => old,
        Change::Updated { new, .. } if is_shut_down(new) => new,
        Change::Updated { .. } => return Vec::new(),
    };
    pods::claims(gone).map(|claim| claim.key).collect()
}

/// The node is done with the pod, or it was deleted by force: it waits for its own finalizers only.
fn is_shut_down(pod: &Pod) -> bool {
    pod.is_deleting() && pod.metadata.deletion_grace_period_seconds == Some(0)
}

/// The pod keeps the claim. One that is not on a node yet does not: a node starts no pod whose claim is deleted. One that
/// has ended does, until it is gone; but not one that is shut down and whose own the claim is, for it may wait for it.
fn uses(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    let is_placed = pod.spec.as_ref().and_then(|s| s.node_name.as_ref()).is_some_and(|node| !node.is_empty());
    let key = claim.key();
    let is_held =
        |ephemeral: bool| !ephemeral || (!is_shut_down(pod) && owner::is_controlled_by(&claim.metadata, pod.uid()));
    is_placed && pods::claims(pod).any(|claimed| claimed.key == key && is_held(claimed.ephemeral))
}

#[async_trait::async_trait]
impl Reconciler for Claims {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let Some(claim) = self.claims.get(key) else { return Ok(Action::Done) };
        let known = self.pods.by_index(POD_CLAIM, &key.to_string());
        let Some(step) = plan(&*claim, FINALIZER, || known.iter().any(|pod| uses(pod, &claim))) else {
            return Ok(Action::Done);
        };
        if step == Step::Remove {
            // A pod that was placed a moment ago may not have been heard of: the API server knows for certain.
            let all = self.client.namespaced::<Pod>(&key.namespace).list(&ListParams::default()).await?;
            if all.items.iter().any(|pod| uses(pod, &claim)) {
                // Its end will be heard of.
                return Ok(Action::Done);
            }
        }
        write(&self.client.namespaced(&key.namespace), &*claim, FINALIZER, step).await?;
        Ok(Action::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn claim(name: &str, owner: Option<&str>) -> PersistentVolumeClaim {
        let owners = owner
            .map(|uid| json!([{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": uid, "controller": true}]));
        serde_json::from_value(json!({"metadata": {"name": name, "namespace": "ns", "ownerReferences": owners}}))
            .unwrap()
    }

    fn pod(uid: &str, node: &str, phase: &str, volume: &Value) -> Pod {
        let mut data = json!({"name": "data"});
        data.as_object_mut().unwrap().extend(volume.as_object().unwrap().clone());
        serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "ns", "uid": uid},
            "spec": {"nodeName": node, "containers": [], "volumes": [{"name": "token", "emptyDir": {}}, data]},
            "status": {"phase": phase},
        }))
        .unwrap()
    }

    fn shut_down(mut pod: Pod, grace: i64) -> Pod {
        pod.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
        pod.metadata.deletion_grace_period_seconds = Some(grace);
        pod
    }

    #[test]
    fn a_pod_on_a_node_uses_the_claims_it_names() {
        let names = json!({"persistentVolumeClaim": {"claimName": "db"}});
        let db = claim("db", None);
        assert!(uses(&pod("u", "n1", "Running", &names), &db));
        assert!(!uses(&pod("u", "", "Pending", &names), &db), "no node starts it any more");
        assert!(!uses(&pod("u", "n1", "Running", &names), &claim("other", None)));
        let elsewhere = PersistentVolumeClaim {
            metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                namespace: Some("other".into()),
                ..db.metadata.clone()
            },
            ..db.clone()
        };
        assert!(!uses(&pod("u", "n1", "Running", &names), &elsewhere));
        // As upstream: until the pod is gone.
        assert!(uses(&pod("u", "n1", "Succeeded", &names), &db));
        assert!(uses(&shut_down(pod("u", "n1", "Running", &names), 0), &db));
    }

    #[test]
    fn a_claim_made_for_a_pod_is_kept_by_that_pod_until_it_is_shut_down() {
        let ephemeral = json!({"ephemeral": {"volumeClaimTemplate": {"spec": {}}}});
        let running = pod("u", "n1", "Running", &ephemeral);
        assert!(uses(&running, &claim("web-data", Some("u"))));
        assert!(!uses(&running, &claim("web-data", Some("v"))), "another pod's");
        assert!(!uses(&running, &claim("web-data", None)), "somebody else's of the same name");
        assert!(uses(&shut_down(running.clone(), 30), &claim("web-data", Some("u"))));
        assert!(!uses(&shut_down(running, 0), &claim("web-data", Some("u"))));
    }

    #[test]
    fn the_end_of_a_pod_wakes_its_claims() {
        let names = json!({"persistentVolumeClaim": {"claimName": "db"}});
        let of = |uid: &str| Arc::new(pod(uid, "n1", "Running", &names));
        let db = [ObjectKey::new("ns", "db")];
        assert_eq!(released(&Change::Deleted(of("u"))), db);
        assert_eq!(released(&Change::Updated { old: of("u"), new: of("v") }), db);
        let down = Arc::new(shut_down((*of("u")).clone(), 0));
        assert_eq!(released(&Change::Updated { old: of("u"), new: down }), db);
        assert!(released(&Change::Updated { old: of("u"), new: of("u") }).is_empty());
        assert!(released(&Change::Added(of("u"))).is_empty());
    }
}
