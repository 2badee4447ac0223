//! Who controls what: which of the objects that match a selector belong to an owner, which it takes and which it lets go.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use trireme_client::{Known, Object};
use trireme_machinery::labels::Selector;

/// The reference to an object's controller.
pub(crate) fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.as_ref()?.iter().find(|r| r.controller == Some(true))
}

/// The object is controlled by the owner of this uid.
pub(crate) fn is_controlled_by(meta: &ObjectMeta, uid: &str) -> bool {
    controller_of(meta).is_some_and(|r| r.uid == uid)
}

/// The reference by which an owner controls what it made.
pub(crate) fn reference_to<K: Known>(owner: &K) -> OwnerReference {
    let resource = K::resource();
    OwnerReference {
        api_version: resource.api_version(),
        kind: resource.kind,
        name: owner.meta().name.clone().unwrap_or_default(),
        uid: owner.uid().to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Objects as their owner sees them.
#[derive(Debug)]
pub(crate) struct Sorted<K> {
    /// Its own.
    pub(crate) mine: Vec<Arc<K>>,
    /// Orphans that match: to be adopted.
    pub(crate) adopt: Vec<Arc<K>>,
    /// Its own that do not match any more: to be let go.
    pub(crate) release: Vec<Arc<K>>,
}

/// Sorts the objects of the owner's namespace.
pub(crate) fn sort<K: Object>(
    owner: &impl Object,
    selector: &Selector,
    objects: impl IntoIterator<Item = Arc<K>>,
) -> Sorted<K> {
    let mut sorted = Sorted { mine: Vec::new(), adopt: Vec::new(), release: Vec::new() };
    for object in objects {
        let matches = selector.matches(&object.meta().labels);
        match controller_of(object.meta()) {
            Some(reference) if reference.uid != owner.uid() => {}
            Some(_) if matches => sorted.mine.push(object),
            Some(_) if owner.is_deleting() => {}
            Some(_) => sorted.release.push(object),
            None if matches && !owner.is_deleting() && !object.is_deleting() => sorted.adopt.push(object),
            None => {}
        }
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::apps::v1::ReplicaSet;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    fn pod(name: &str, app: &str, owner: Option<&str>) -> Arc<Pod> {
        let owners = owner.map(
            |uid| json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": uid, "controller": true}]),
        );
        Arc::new(
            serde_json::from_value(
                json!({"metadata": {"name": name, "labels": {"app": app}, "ownerReferences": owners}}),
            )
            .unwrap(),
        )
    }

    fn names(pods: &[Arc<Pod>]) -> Vec<&str> {
        pods.iter().map(|p| p.metadata.name.as_deref().unwrap()).collect()
    }

    #[test]
    fn pods_are_kept_adopted_and_released() {
        let owner: ReplicaSet = serde_json::from_value(json!({"metadata": {"name": "rs", "uid": "u"}})).unwrap();
        let selector = Selector::parse("app=web").unwrap();
        let pods = [
            pod("mine", "web", Some("u")),
            pod("orphan", "web", None),
            pod("strayed", "other", Some("u")),
            pod("foreign", "web", Some("v")),
            pod("unrelated", "other", None),
        ];
        let sorted = sort(&owner, &selector, pods.clone());
        assert_eq!(names(&sorted.mine), ["mine"]);
        assert_eq!(names(&sorted.adopt), ["orphan"]);
        assert_eq!(names(&sorted.release), ["strayed"]);

        let mut leaving = owner.clone();
        leaving.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
        let sorted = sort(&leaving, &selector, pods);
        assert_eq!((sorted.mine.len(), sorted.adopt.len(), sorted.release.len()), (1, 0, 0));
    }
}
