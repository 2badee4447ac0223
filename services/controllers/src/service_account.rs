//! The ServiceAccount `default` of every namespace.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use trireme_client::{Action, Client, Controller, Object, ObjectKey, PostParams, ReconcileError, Reconciler, Store};

use crate::cluster::Cluster;

const NAME: &str = "serviceaccount";
const DEFAULT: &str = "default";

struct Accounts {
    client: Client,
    namespaces: Store<Namespace>,
    accounts: Store<ServiceAccount>,
}

/// The controller and its work.
pub(crate) fn controller(cluster: &Cluster) -> (Controller, Arc<dyn Reconciler>) {
    let (namespaces, accounts) = (cluster.namespaces(), cluster.accounts());
    let controller =
        cluster.controller(NAME).watch(&namespaces, |namespace| vec![namespace.key()]).watch(&accounts, |account| {
            let key = account.key();
            if key.name == DEFAULT { vec![ObjectKey::cluster(key.namespace)] } else { Vec::new() }
        });
    let reconciler =
        Accounts { client: cluster.client.clone(), namespaces: namespaces.store(), accounts: accounts.store() };
    (controller, Arc::new(reconciler))
}

/// The namespace takes new objects.
pub(crate) fn is_active(namespace: &Namespace) -> bool {
    let phase = namespace.status.as_ref().and_then(|s| s.phase.as_deref());
    !namespace.is_deleting() && phase != Some("Terminating")
}

#[async_trait::async_trait]
impl Reconciler for Accounts {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let active = self.namespaces.get(key).is_some_and(|n| is_active(&n));
        if !active || self.accounts.find(&key.name, DEFAULT).is_some() {
            return Ok(Action::Done);
        }
        let account = ServiceAccount {
            metadata: ObjectMeta {
                name: Some(DEFAULT.to_owned()),
                namespace: Some(key.name.clone()),
                ..ObjectMeta::default()
            },
            ..ServiceAccount::default()
        };
        match self.client.namespaced::<ServiceAccount>(&key.name).create(&PostParams::default(), &account).await {
            Err(error) if error.is_already_exists() || error.is_namespace_terminating() => Ok(Action::Done),
            other => other.map(|_| Action::Done).map_err(Into::into),
        }
    }
}
