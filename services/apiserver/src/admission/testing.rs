//! Objects for tests of plugins: a store, and a cache that may lag behind it.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use trireme_kinds::{Kind, Registry};
use trireme_machinery::status::Status;

use crate::auth::authorizer::Mode;
use crate::auth::node::NodeAuthorizer;
use crate::auth::rbac::Rbac;
use crate::auth::testing;
use crate::auth::{Authorizer, UserInfo};
use crate::duties::policy;
use crate::pipeline::{Context, Objects, Reader, Stored};

/// A store and what the cache has seen of it.
pub(crate) struct Behind {
    store: Arc<testing::Objects>,
    cache: Arc<testing::Objects>,
}

impl Behind {
    /// A cache that has seen everything.
    pub(crate) fn seen(objects: Vec<Value>) -> Arc<Self> {
        let store = testing::Objects::of(objects);
        Arc::new(Self { cache: store.clone(), store })
    }

    /// A cache that has seen nothing of this yet.
    pub(crate) fn unseen(objects: Vec<Value>) -> Arc<Self> {
        Arc::new(Self { store: testing::Objects::of(objects), cache: Arc::default() })
    }
}

/// A node's kubelet.
pub(crate) fn node(name: &str) -> UserInfo {
    UserInfo::new(format!("system:node:{name}"), &["system:nodes"])
}

/// The authorizers over what the cache has.
pub(crate) fn authorizer(behind: &Behind) -> Authorizer {
    let reader: Arc<dyn Reader> = behind.cache.clone();
    let registry = Registry::builtin();
    let node = NodeAuthorizer::new(reader.clone(), registry, policy::node_rules());
    let rbac = Rbac::new(reader, registry).unwrap();
    Authorizer::new(vec![Mode::Node, Mode::Rbac], Arc::new(node), Arc::new(rbac))
}

fn unwanted<T>() -> Result<T, Status> {
    Err(Status::internal("no test of a plugin writes"))
}

#[async_trait]
impl Objects for Behind {
    async fn get(&self, kind: &Arc<Kind>, namespace: &str, name: &str) -> Result<Arc<Stored>, Status> {
        let found = self.store.get(kind, namespace, name);
        found.ok_or_else(|| Status::not_found(&kind.group_resource(), name))
    }

    async fn list(&self, kind: &Arc<Kind>, namespace: &str) -> Result<Vec<Arc<Stored>>, Status> {
        Ok(self.store.list(kind, Some(namespace)))
    }

    async fn create(&self, _: &Context, _: &Arc<Kind>, _: &str, _: Value) -> Result<Arc<Stored>, Status> {
        unwanted()
    }

    async fn update(
        &self,
        _: &Context,
        _: &Arc<Kind>,
        _: &str,
        _: &str,
        _: &str,
        _: &mut (dyn for<'v> FnMut(&'v mut Value) -> Result<(), Status> + Send),
    ) -> Result<Arc<Stored>, Status> {
        unwanted()
    }

    async fn delete(&self, _: &Context, _: &Arc<Kind>, _: &str, _: &str, _: &Value) -> Result<Value, Status> {
        unwanted()
    }

    fn reader(&self) -> &dyn Reader {
        &*self.cache
    }
}
