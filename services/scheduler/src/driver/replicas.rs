//! Which pods a pod is a replica of: those that its Services select and those of its controller.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use trireme_client::ObjectKey;
use trireme_machinery::labels::Selector;

use super::feed::Informers;
use crate::model::{PodInfo, selector};

/// The selector of a pod's replicas; empty where it has none.
pub(super) fn of(pod: &PodInfo, informers: &Informers) -> Selector {
    let mut labels: BTreeMap<String, String> = BTreeMap::new();
    for service in informers.services.store().in_namespace(pod.namespace()) {
        let wanted = service.spec.as_ref().and_then(|spec| spec.selector.as_ref()).filter(|wanted| !wanted.is_empty());
        if let Some(wanted) =
            wanted.filter(|wanted| wanted.iter().all(|(key, value)| pod.labels().get(key) == Some(value)))
        {
            labels.extend(wanted.clone());
        }
    }
    let references = pod.pod.metadata.owner_references.as_ref();
    let controller = references.into_iter().flatten().find(|owner| owner.controller == Some(true));
    match controller {
        Some(owner) => with_controller(pod, owner, labels, informers),
        None => Selector::from_map(&labels),
    }
}

fn with_controller(
    pod: &PodInfo,
    owner: &OwnerReference,
    mut labels: BTreeMap<String, String>,
    informers: &Informers,
) -> Selector {
    let key = ObjectKey::new(pod.namespace(), &owner.name);
    let own = match (owner.api_version.as_str(), owner.kind.as_str()) {
        ("v1", "ReplicationController") => {
            let controller = informers.replication_controllers.store().get(&key);
            labels.extend(controller.and_then(|c| c.spec.as_ref()?.selector.clone()).unwrap_or_default());
            None
        }
        ("apps/v1", "ReplicaSet") => {
            let set = informers.replica_sets.store().get(&key);
            set.map(|set| selector(Some(&set.spec.selector)))
        }
        ("apps/v1", "StatefulSet") => {
            let set = informers.stateful_sets.store().get(&key);
            set.map(|set| selector(Some(&set.spec.selector)))
        }
        _ => None,
    };
    let services = Selector::from_map(&labels);
    match own {
        Some(own) => services.and(own.requirements().to_vec()),
        None => services,
    }
}
