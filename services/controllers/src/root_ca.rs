//! The certificate authority of the API server, in a ConfigMap of every namespace.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use trireme_client::{Action, Client, Controller, Object, ObjectKey, PostParams, ReconcileError, Reconciler, Store};

use crate::cluster::Cluster;
use crate::service_account::is_active;

const NAME: &str = "root-ca-certificate-publisher";
/// Name of the ConfigMap.
pub(crate) const CONFIG_MAP: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
/// What clients read there, so it is upstream's text.
const DESCRIBED: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

struct RootCas {
    client: Client,
    authority: String,
    namespaces: Store<Namespace>,
    maps: Store<ConfigMap>,
}

/// The controller and its work.
pub(crate) fn controller(cluster: &Cluster, authority: String) -> (Controller, Arc<dyn Reconciler>) {
    let (namespaces, maps) = (cluster.namespaces(), cluster.root_cas());
    let controller = cluster
        .controller(NAME)
        .watch(&namespaces, |namespace| vec![namespace.key()])
        .watch(&maps, |map| vec![ObjectKey::cluster(map.key().namespace)]);
    let reconciler =
        RootCas { client: cluster.client.clone(), authority, namespaces: namespaces.store(), maps: maps.store() };
    (controller, Arc::new(reconciler))
}

#[async_trait::async_trait]
impl Reconciler for RootCas {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        if !self.namespaces.get(key).is_some_and(|n| is_active(&n)) {
            return Ok(Action::Done);
        }
        let api = self.client.namespaced::<ConfigMap>(&key.name);
        let data = Some(BTreeMap::from([("ca.crt".to_owned(), self.authority.clone())]));
        let Some(existing) = self.maps.find(&key.name, CONFIG_MAP) else {
            let map = ConfigMap {
                metadata: ObjectMeta {
                    name: Some(CONFIG_MAP.to_owned()),
                    namespace: Some(key.name.clone()),
                    annotations: Some(BTreeMap::from([(DESCRIPTION.to_owned(), DESCRIBED.to_owned())])),
                    ..ObjectMeta::default()
                },
                data,
                ..ConfigMap::default()
            };
            return match api.create(&PostParams::default(), &map).await {
                Err(error) if error.is_namespace_terminating() => Ok(Action::Done),
                other => other.map(|_| Action::Done).map_err(Into::into),
            };
        };
        let described = existing.metadata.annotations.as_ref().and_then(|a| a.get(DESCRIPTION));
        if existing.data == data && described.is_some_and(|d| d == DESCRIBED) {
            return Ok(Action::Done);
        }
        let mut map = (*existing).clone();
        map.data = data;
        map.metadata.annotations.get_or_insert_default().insert(DESCRIPTION.to_owned(), DESCRIBED.to_owned());
        api.update(&PostParams::default(), &map).await?;
        Ok(Action::Done)
    }
}
