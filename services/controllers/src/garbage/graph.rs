//! Who owns whom, over all resources: informers of metadata, each with an index by owner.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use trireme_client::{ApiResource, Change, Client, Informer, MetaObject, Object, ObjectKey, Served, Tasks};

const OWNER: &str = "owner";
pub(super) const FOREGROUND: &str = "foregroundDeletion";
pub(super) const ORPHAN: &str = "orphan";
/// Resources that own nothing and are owned by nothing, and change all the time.
const IGNORED: [&str; 2] = ["events", "events.events.k8s.io"];

/// The resources of a server, and an informer for each.
#[derive(Clone)]
pub(super) struct Graph {
    informers: Arc<BTreeMap<String, Informer<MetaObject>>>,
    /// (group, kind) → resource
    kinds: Arc<HashMap<(String, String), ApiResource>>,
}

/// An object anywhere in the graph.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) resource: ApiResource,
    pub(super) object: Arc<MetaObject>,
}

/// What has a finalizer.
pub(super) fn has_finalizer(object: &MetaObject, finalizer: &str) -> bool {
    object.metadata.finalizers.as_ref().is_some_and(|all| all.iter().any(|f| f == finalizer))
}

/// References of an object to its owners.
pub(super) fn owners(object: &MetaObject) -> &[OwnerReference] {
    object.metadata.owner_references.as_deref().unwrap_or_default()
}

/// It waits for what it owns to be deleted.
pub(super) fn waits_for_dependents(object: &MetaObject) -> bool {
    object.is_deleting() && has_finalizer(object, FOREGROUND)
}

/// The key of an object in the queue: its resource is part of the name.
pub(super) fn key_of(resource: &ApiResource, object: &ObjectKey) -> ObjectKey {
    ObjectKey::new(object.namespace.clone(), format!("{}/{}", resource.group_resource(), object.name))
}

/// The resources that the collector follows.
pub(super) fn followed(served: &[Served]) -> Vec<ApiResource> {
    let wanted =
        |s: &&Served| s.takes(&["list", "watch", "delete"]) && !IGNORED.contains(&s.resource.group_resource().as_str());
    served.iter().filter(wanted).map(|s| s.resource.clone()).collect()
}

impl Graph {
    /// A graph over these resources, which takes over the informers of the one before.
    pub(super) fn new(client: &Client, tasks: &Tasks, served: &[Served], before: Option<&Graph>) -> Self {
        let mut informers = BTreeMap::new();
        for resource in followed(served) {
            let known = before.and_then(|g| g.informers.get(&resource.group_resource()));
            let informer = known.filter(|i| *i.resource() == resource).cloned().unwrap_or_else(|| {
                Informer::<MetaObject>::dynamic(client, &resource)
                    .metadata_only()
                    .transform(strip)
                    .index(OWNER, |o| owners(o).iter().map(|r| r.uid.clone()).collect())
                    .start(tasks)
            });
            informers.insert(resource.group_resource(), informer);
        }
        let kinds = served.iter().map(|s| ((s.resource.group.clone(), s.resource.kind.clone()), s.resource.clone()));
        Self { informers: Arc::new(informers), kinds: Arc::new(kinds.collect()) }
    }

    pub(super) fn informers(&self) -> impl Iterator<Item = &Informer<MetaObject>> {
        self.informers.values()
    }

    /// The object of a key in the queue.
    pub(super) fn get(&self, key: &ObjectKey) -> Option<Found> {
        let (resource, name) = key.name.split_once('/')?;
        let informer = self.informers.get(resource)?;
        let object = informer.store().find(&key.namespace, name)?;
        Some(Found { resource: informer.resource().clone(), object })
    }

    /// The resource that a reference is about; `None`: the server does not have it.
    pub(super) fn resource_of(&self, reference: &OwnerReference) -> Option<&ApiResource> {
        let group = reference.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        self.kinds.get(&(group.to_owned(), reference.kind.clone()))
    }

    /// The owner as the informer knows it, if it is the one meant.
    pub(super) fn known_owner(&self, reference: &OwnerReference, namespace: &str) -> Option<Arc<MetaObject>> {
        let resource = self.resource_of(reference)?;
        let namespace = if resource.namespaced { namespace } else { "" };
        let store = self.informers.get(&resource.group_resource())?.store();
        store.find(namespace, &reference.name).filter(|o| o.uid() == reference.uid)
    }

    /// Everything that names this owner.
    pub(super) fn dependents(&self, uid: &str) -> Vec<Found> {
        let of = |informer: &Informer<MetaObject>| {
            let resource = informer.resource().clone();
            let found = informer.store().by_index(OWNER, uid).into_iter();
            found.map(move |object| Found { resource: resource.clone(), object }).collect::<Vec<_>>()
        };
        self.informers.values().flat_map(of).collect()
    }

    /// Whom a change of an object of a resource wakes.
    pub(super) fn woken(&self, resource: &ApiResource, change: &Change<MetaObject>) -> Vec<ObjectKey> {
        let object = change.object();
        let own = || key_of(resource, &object.key());
        match change {
            Change::Deleted(object) => {
                // Those it owned may have no owner any more; those that owned it may have waited for it.
                let owned = self.dependents(object.uid()).into_iter().map(|f| key_of(&f.resource, &f.object.key()));
                owned.chain(self.owner_keys(object)).collect()
            }
            Change::Updated { old, new } => {
                let mut keys = Vec::new();
                let looks = |o: &MetaObject| (owners(o).to_vec(), o.is_deleting(), o.metadata.finalizers.clone());
                if looks(old) != looks(new) && self.is_interesting(new) {
                    keys.push(own());
                }
                // An owner that waits looks again when a dependent lets go of it or begins to go.
                if owners(old) != owners(new) || old.is_deleting() != new.is_deleting() {
                    keys.extend(self.owner_keys(old));
                }
                // When the owner begins to wait, those it owns are to go.
                if !waits_for_dependents(old) && waits_for_dependents(new) {
                    let owned = self.dependents(new.uid());
                    keys.extend(owned.into_iter().map(|f| key_of(&f.resource, &f.object.key())));
                }
                keys
            }
            Change::Added(object) if self.is_interesting(object) => vec![own()],
            Change::Added(_) => Vec::new(),
        }
    }

    /// It waits for the collector, or has an owner that has to be looked at: most owners are known and stay, and wake
    /// what they own when they go.
    fn is_interesting(&self, object: &MetaObject) -> bool {
        if object.is_deleting() {
            return has_finalizer(object, FOREGROUND) || has_finalizer(object, ORPHAN);
        }
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        let stays = |owner: &MetaObject| !waits_for_dependents(owner);
        owners(object).iter().any(|reference| !self.known_owner(reference, namespace).is_some_and(|o| stays(&o)))
    }

    /// An object of this uid and kind lies in another namespace than a reference can mean.
    pub(super) fn lies_elsewhere(&self, reference: &OwnerReference) -> bool {
        let informer = self.resource_of(reference).and_then(|r| self.informers.get(&r.group_resource()));
        informer.is_some_and(|i| i.store().list().iter().any(|o| o.uid() == reference.uid))
    }

    fn owner_keys(&self, object: &MetaObject) -> Vec<ObjectKey> {
        let namespace = object.metadata.namespace.clone().unwrap_or_default();
        owners(object)
            .iter()
            .filter_map(|reference| {
                let resource = self.resource_of(reference)?;
                let namespace = if resource.namespaced { namespace.clone() } else { String::new() };
                Some(key_of(resource, &ObjectKey::new(namespace, reference.name.clone())))
            })
            .collect()
    }
}

/// Only what the collector looks at is kept.
fn strip(object: &mut MetaObject) {
    object.metadata.annotations = None;
    object.metadata.labels = None;
}
